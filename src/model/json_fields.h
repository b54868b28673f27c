// Typed look-ups in a JSON object that others wrote (config.json, generation_config.json). A key that is
// absent or null has the value that its reader gives as default; one of another type is Error(config) that
// names file and key: a number written as text is not a number.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace plumb {

class JsonFields {
 public:
  JsonFields(Json object, std::string name);  // `name` of the file, for messages; throws if it is no object

  const std::string& name() const { return name_; }
  bool has(const char* key) const;         // there and not null
  const Json& raw(const char* key) const;  // null if absent

  int64_t integer(const char* key, int64_t absent) const;
  double number(const char* key, double absent) const;
  bool flag(const char* key, bool absent) const;
  std::string text(const char* key, const std::string& absent) const;
  std::optional<int64_t> optional_integer(const char* key) const;
  std::optional<double> optional_number(const char* key) const;
  std::optional<bool> optional_flag(const char* key) const;

  // Token ids: -1 for none, also where a file says so.
  int64_t id(const char* key, int64_t absent) const;
  std::vector<int64_t> ids(const char* key, const std::vector<int64_t>& absent) const;  // one id or a list
  std::vector<std::vector<int64_t>> id_lists(const char* key) const;
  std::vector<std::string> texts(const char* key) const;  // a list, empty if absent
  JsonFields object(const char* key) const;               // an empty one if absent

  [[noreturn]] void wrong(const char* key, const char* expected) const;

 private:
  std::shared_ptr<const Json> object_;
  std::string name_;
};

}  // namespace plumb
