#include "train/options_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plumb/config_fields.h"

namespace plumb {

OrderedJson options_json(const TrainOptions& options) {
  OrderedJson j;
  visit_train(options, [&](const char* name, const auto& value, const char*) {
    if constexpr (std::is_enum_v<std::decay_t<decltype(value)>>) {
      j[name] = enum_name(value);
    } else {
      j[name] = value;
    }
  });
  return j;
}

std::vector<std::string> option_changes(const Json& saved, const TrainOptions& options) {
  std::vector<std::string> changes;
  const OrderedJson current = options_json(options);
  for (const auto& [name, value] : current.items()) {
    const Json now = Json::parse(value.dump());
    if (saved.contains(name) && saved.at(name) == now) continue;
    std::string flag = name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    changes.push_back("--" + flag + " " + now.dump() + " instead of " +
                      (saved.contains(name) ? saved.at(name).dump() : "nothing"));
  }
  return changes;
}

}  // namespace plumb
