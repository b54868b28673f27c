#include "text/json_at.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "plumb/error.h"

namespace plumb {

void JsonAt::malformed(const std::string& what) const {
  throw Error(ErrorKind::file, path_.empty() ? fmt::format("{}: {}", *file_, what)
                                             : fmt::format("{}: {}: {}", *file_, path_, what));
}

void JsonAt::wrong(const std::string& key, std::string_view expected) const {
  const auto place = value_->find(key);
  if (place == value_->end()) malformed(fmt::format("\"{}\" is missing, expected {}", key, expected));
  std::string got = dump_json(*place, -1);
  if (got.size() > 60) got = std::string(place->type_name());
  malformed(fmt::format("\"{}\" is {}, expected {}", key, got, expected));
}

const ModelRows& JsonAt::rows() const {
  static const ModelRows none;
  return rows_ ? *rows_ : none;
}

bool JsonAt::has(const char* key) const {
  if (!value_->is_object()) malformed("expected an object");
  const auto place = value_->find(key);
  return place != value_->end() && !place->is_null();
}

JsonAt JsonAt::at(const char* key) const {
  if (!has(key)) malformed(fmt::format("\"{}\" is missing", key));
  return {(*value_)[key], *file_, path_.empty() ? key : path_ + "." + key, rows_};
}

JsonAt JsonAt::object(const char* key) const {
  if (!has(key) || !(*value_)[key].is_object()) malformed(fmt::format("\"{}\" is missing or no object", key));
  return at(key);
}

JsonAt JsonAt::list(const char* key) const {
  if (!has(key) || !(*value_)[key].is_array()) malformed(fmt::format("\"{}\" is missing or no list", key));
  return at(key);
}

size_t JsonAt::size() const {
  return value_->size();
}

JsonAt JsonAt::item(size_t index) const {
  return {(*value_)[index], *file_, fmt::format("{}[{}]", path_, index), rows_};
}

void JsonAt::unknown(std::string_view what, const std::string& type) const {
  throw Error(ErrorKind::unsupported,
              fmt::format("{}: {}: the {} \"{}\" is not known", *file_, path_, what, type));
}

std::string JsonAt::type(std::string_view what,
                         std::initializer_list<std::pair<const char*, const char*>> types_by_key) const {
  if (has("type")) return text("type");
  for (const auto& [key, type] : types_by_key) {
    if (has(key)) return type;
  }
  malformed(fmt::format("a {} without a type", what));
}

std::string JsonAt::text(const char* key) const {
  if (!has(key) || !(*value_)[key].is_string()) wrong(key, "a string");
  return (*value_)[key].get<std::string>();
}

std::string JsonAt::text(const char* key, const std::string& fallback) const {
  return has(key) ? text(key) : fallback;
}

char32_t JsonAt::character(const char* key) const {
  const std::string content = text(key);
  size_t end = 0;
  const char32_t result = content.empty() ? 0 : next_code_point(content, end);
  if (content.empty() || end != content.size()) wrong(key, "one character");
  return result;
}

bool JsonAt::flag(const char* key) const {
  if (!has(key) || !(*value_)[key].is_boolean()) wrong(key, "true or false");
  return (*value_)[key].get<bool>();
}

bool JsonAt::flag(const char* key, bool fallback) const {
  return has(key) ? flag(key) : fallback;
}

uint64_t JsonAt::whole(const char* key, uint64_t most) const {
  if (!has(key) || !(*value_)[key].is_number_unsigned() || (*value_)[key].get<uint64_t>() > most)
    wrong(key, fmt::format("a whole number from 0 to {}", most));
  return (*value_)[key].get<uint64_t>();
}

int32_t JsonAt::id(const char* key) const {
  return static_cast<int32_t>(whole(key, std::numeric_limits<int32_t>::max()));
}

}  // namespace plumb
