#include "text/pattern.h"

#include <fmt/format.h>

#include "plumb/error.h"

namespace plumb {

Pattern Pattern::literal(const std::string& text) {
  if (text.empty()) return regex("");  // between all characters
  Pattern result;
  result.text_ = text;
  return result;
}

Pattern Pattern::regex(const std::string& pattern) {
  Pattern result;
  result.regex_ = std::make_shared<const Regex>(Regex::ruby(pattern));
  return result;
}

Pattern read_pattern(const JsonAt& json) {
  const JsonAt pattern = json.object("pattern");
  if (pattern.has("String")) return Pattern::literal(pattern.text("String"));
  const std::string text = pattern.text("Regex");
  try {
    return Pattern::regex(text);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}: {}", json.file(), pattern.path(), error.what()));
  }
}

}  // namespace plumb
