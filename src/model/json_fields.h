// Typed look-ups in a JSON object that others wrote (config.json, generation_config.json), and the making of
// one. Whoever includes this does without <nlohmann/json.hpp>, which takes longer to compile than a family.
//
// A key that is
// absent or null has the value that its reader gives as default; one of another type is Error(config) that
// names file and key: a number written as text is not a number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"

namespace plumb {

class JsonFields {
 public:
  JsonFields(Json object, std::string name);  // `name` of the file, for messages; throws if it is no object

  const std::string& name() const { return name_; }
  bool has(const char* key) const;         // there and not null
  bool says_none(const char* key) const;   // there and null: where that is no default
  const Json& raw(const char* key) const;  // null if absent
  const Json& all() const { return *object_; }

  int64_t integer(const char* key, int64_t absent) const;
  double number(const char* key, double absent) const;
  bool flag(const char* key, bool absent) const;
  std::string text(const char* key, const std::string& absent) const;
  // Of a key that may say "none" by null: 0 then.
  int64_t integer_or_none(const char* key, int64_t absent) const;
  double number_or_none(const char* key, double absent) const;
  std::optional<int64_t> optional_integer(const char* key) const;
  std::optional<double> optional_number(const char* key) const;
  std::optional<bool> optional_flag(const char* key) const;

  // Token ids: -1 for none, also where a file says so.
  int64_t id(const char* key, int64_t absent) const;
  std::vector<int64_t> ids(const char* key, const std::vector<int64_t>& absent) const;  // one id or a list
  std::vector<std::vector<int64_t>> id_lists(const char* key) const;
  std::vector<std::string> texts(const char* key) const;  // a list, empty if absent
  std::vector<double> numbers(const char* key) const;     // the same
  // Of an object with the keys "0" to "n - 1"; empty if absent.
  std::vector<std::string> texts_by_number(const char* key) const;
  JsonFields object(const char* key) const;  // an empty one if absent

  [[noreturn]] void wrong(const char* key, const char* expected) const;

 private:
  std::shared_ptr<const Json> object_;
  std::string name_;
};

// What a key of config.json may hold, but for an object.
class JsonValue {
 public:
  JsonValue(std::nullptr_t) {}
  JsonValue(bool v) : value_(v) {}
  JsonValue(int v) : value_(int64_t{v}) {}
  JsonValue(int64_t v) : value_(v) {}
  JsonValue(double v) : value_(v) {}
  JsonValue(const char* v) : value_(std::string(v)) {}
  JsonValue(std::string_view v) : value_(std::string(v)) {}
  JsonValue(std::string v) : value_(std::move(v)) {}
  JsonValue(std::vector<int64_t> v) : value_(std::move(v)) {}
  JsonValue(std::vector<double> v) : value_(std::move(v)) {}
  JsonValue(std::vector<std::string> v) : value_(std::move(v)) {}

  Json json() const;

 private:
  std::variant<std::nullptr_t, bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
               std::vector<std::string>>
      value_;
};

// An object that is being written: out["width"] = 64. It refers to the JSON that it was made of.
class JsonObject {
 public:
  explicit JsonObject(OrderedJson& json) : json_(&json) {}

  class Field {
   public:
    Field(OrderedJson& object, const char* key) : object_(&object), key_(key) {}
    void operator=(const JsonValue& value);

   private:
    OrderedJson* object_;
    const char* key_;
  };
  Field operator[](const char* key) { return {*json_, key}; }
  JsonObject object(const char* key);  // the object there, made where there is none

 private:
  OrderedJson* json_;
};

}  // namespace plumb
