// What a component of tokenizer.json looks for: {"String": text} or {"Regex": pattern}.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/json_at.h"
#include "text/regex.h"

namespace plumb {

class Pattern {
 public:
  static Pattern literal(const std::string& text);
  static Pattern regex(const std::string& pattern);

  // Calls found(begin, end) for each match, left to right, without overlap. Error(input) where a match takes
  // more steps than any sane one.
  template <typename Found>
  void each(std::string_view text, Found&& found) const;

 private:
  std::string text_;  // found as it is, unless empty
  std::shared_ptr<const Regex> regex_;
};

// json.pattern.
Pattern read_pattern(const JsonAt& json);

template <typename Found>
void Pattern::each(std::string_view text, Found&& found) const {
  if (!text_.empty()) {
    for (size_t i = text.find(text_); i != std::string_view::npos; i = text.find(text_, i + text_.size()))
      found(i, i + text_.size());
    return;
  }
  if (text.empty()) return;
  Regex::Matches matches(*regex_, text);
  for (size_t begin = 0, end = 0; matches.next(begin, end);) found(begin, end);
}

}  // namespace plumb
