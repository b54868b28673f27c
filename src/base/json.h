// JSON in and out. Include <nlohmann/json.hpp> in the .cpp that looks inside a value.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

using Json = nlohmann::json;  // what was read: objects sorted by key, look-up in log n
using OrderedJson =
    nlohmann::ordered_json;  // what is to be written in the order it was built; look-up is linear

// Parses text that must be one JSON value. Refused, as Error(file) with `name`, line and column: malformed
// text, non-UTF-8, numbers beyond double, keys given twice in one object, nesting beyond 64, anything after
// the value.
Json parse_json(std::string_view text, const std::string& name);
Json parse_json_file(const std::string& path);

// Large objects and lists need not become part of the tree: each of their members is handed to `take`, in the
// order of the file, and is in the tree only where `take` gives false.
struct JsonRows {
  std::vector<std::string> places;  // of the objects and lists: "model.vocab"
  // key: of a member; empty for an item of a list. That no key is given twice is left to `take`.
  std::function<bool(size_t place, std::string& key, Json& value)> take;
};
Json parse_json_file(const std::string& path, const JsonRows& rows);

// Text of a value; indent < 0 gives one line. Strings that are not UTF-8 have their faulty bytes replaced by
// U+FFFD. Numbers that are not finite become null.
std::string dump_json(const Json& value, int indent = 2);
std::string dump_json(const OrderedJson& value, int indent = 2);
std::string quote_json(std::string_view text);  // one string, quoted and escaped

}  // namespace plumb
