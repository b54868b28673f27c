#include "model/json_fields.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plumb/error.h"

namespace plumb {
namespace {

const Json kNull;
constexpr int64_t kLargest = int64_t{1} << 31;  // so that readers may multiply two of them

bool whole(const Json& j) {
  return j.is_number_integer() && !(j.is_number_unsigned() && j.get<uint64_t>() > INT64_MAX);
}

}  // namespace

JsonFields::JsonFields(Json object, std::string name)
    : object_(std::make_shared<const Json>(std::move(object))), name_(std::move(name)) {
  if (!object_->is_object()) throw Error(ErrorKind::config, fmt::format("{} is not a JSON object", name_));
}

void JsonFields::wrong(const char* key, const char* expected) const {
  throw Error(ErrorKind::config,
              fmt::format("{}: {} is {}, expected {}", name_, key, raw(key).dump(), expected));
}

const Json& JsonFields::raw(const char* key) const {
  const auto it = object_->find(key);
  return it == object_->end() ? kNull : *it;
}

bool JsonFields::has(const char* key) const {
  return !raw(key).is_null();
}

bool JsonFields::says_none(const char* key) const {
  return object_->contains(key) && !has(key);
}

std::optional<int64_t> JsonFields::optional_integer(const char* key) const {
  if (!has(key)) return std::nullopt;
  if (!whole(raw(key))) wrong(key, "a whole number");
  const auto value = raw(key).get<int64_t>();
  if (value < -kLargest || value > kLargest) wrong(key, "a whole number of a size up to 2^31");
  return value;
}

std::optional<double> JsonFields::optional_number(const char* key) const {
  if (!has(key)) return std::nullopt;
  if (!raw(key).is_number()) wrong(key, "a number");
  return raw(key).get<double>();
}

std::optional<bool> JsonFields::optional_flag(const char* key) const {
  if (!has(key)) return std::nullopt;
  if (!raw(key).is_boolean()) wrong(key, "true or false");
  return raw(key).get<bool>();
}

int64_t JsonFields::integer_or_none(const char* key, int64_t absent) const {
  return object_->contains(key) ? integer(key, 0) : absent;
}
double JsonFields::number_or_none(const char* key, double absent) const {
  return object_->contains(key) ? number(key, 0) : absent;
}

int64_t JsonFields::integer(const char* key, int64_t absent) const {
  return optional_integer(key).value_or(absent);
}
double JsonFields::number(const char* key, double absent) const {
  return optional_number(key).value_or(absent);
}
bool JsonFields::flag(const char* key, bool absent) const {
  return optional_flag(key).value_or(absent);
}

std::string JsonFields::text(const char* key, const std::string& absent) const {
  if (!has(key)) return absent;
  if (!raw(key).is_string()) wrong(key, "a text");
  return raw(key).get<std::string>();
}

// An id that is there and null says "none", which an absent one does not.
int64_t JsonFields::id(const char* key, int64_t absent) const {
  if (!object_->contains(key)) return absent;
  const int64_t id = integer(key, -1);
  if (id < -1) wrong(key, "a token id, or null for none");
  return id;
}

std::vector<int64_t> JsonFields::ids(const char* key, const std::vector<int64_t>& absent) const {
  if (!object_->contains(key)) return absent;
  const Json& j = raw(key);
  if (!j.is_array()) {
    const int64_t one = id(key, -1);
    return one < 0 ? std::vector<int64_t>{} : std::vector<int64_t>{one};
  }
  std::vector<int64_t> list;
  for (const Json& item : j) {
    if (!whole(item) || item.get<int64_t>() < 0) wrong(key, "a token id or a list of them");
    list.push_back(item.get<int64_t>());
  }
  return list;
}

std::vector<std::vector<int64_t>> JsonFields::id_lists(const char* key) const {
  std::vector<std::vector<int64_t>> lists;
  if (!has(key)) return lists;
  if (!raw(key).is_array()) wrong(key, "a list of lists of token ids");
  for (const Json& item : raw(key)) {
    if (!item.is_array() || item.empty()) wrong(key, "a list of lists of token ids");
    std::vector<int64_t> list;
    for (const Json& one : item) {
      if (!whole(one) || one.get<int64_t>() < 0) wrong(key, "a list of lists of token ids");
      list.push_back(one.get<int64_t>());
    }
    lists.push_back(list);
  }
  return lists;
}

std::vector<std::string> JsonFields::texts(const char* key) const {
  std::vector<std::string> list;
  if (!has(key)) return list;
  if (!raw(key).is_array()) wrong(key, "a list of texts");
  for (const Json& item : raw(key)) {
    if (!item.is_string()) wrong(key, "a list of texts");
    list.push_back(item.get<std::string>());
  }
  return list;
}

std::vector<double> JsonFields::numbers(const char* key) const {
  std::vector<double> list;
  if (!has(key)) return list;
  if (!raw(key).is_array()) wrong(key, "a list of numbers");
  list.reserve(raw(key).size());
  for (const Json& item : raw(key)) {
    if (!item.is_number()) wrong(key, "a list of numbers");
    list.push_back(item.get<double>());
  }
  return list;
}

std::vector<std::string> JsonFields::texts_by_number(const char* key) const {
  if (!has(key)) return {};
  constexpr const char* expected = "an object of texts, with the keys 0 to their number - 1";
  if (!raw(key).is_object()) wrong(key, expected);
  std::vector<std::optional<std::string>> texts(raw(key).size());
  for (const auto& [number, text] : raw(key).items()) {
    const bool digits = number.size() < 10 && number.find_first_not_of("0123456789") == number.npos;
    const size_t at = digits && !number.empty() ? std::stoul(number) : texts.size();
    if (at >= texts.size() || texts[at] || !text.is_string()) wrong(key, expected);
    texts[at] = text.get<std::string>();
  }
  std::vector<std::string> list;
  list.reserve(texts.size());
  for (const auto& text : texts) list.push_back(*text);
  return list;
}

JsonFields JsonFields::object(const char* key) const {
  if (!has(key)) return {Json::object(), name_ + ": " + key};
  if (!raw(key).is_object()) wrong(key, "an object");
  return {raw(key), name_ + ": " + key};
}

Json JsonValue::json() const {
  return std::visit([](const auto& v) { return Json(v); }, value_);
}

void JsonObject::Field::operator=(const JsonValue& value) {
  (*object_)[key_] = OrderedJson(value.json());
}

JsonObject JsonObject::object(const char* key) {
  OrderedJson& inner = (*json_)[key];
  if (!inner.is_object()) inner = OrderedJson::object();
  return JsonObject(inner);
}

}  // namespace plumb
