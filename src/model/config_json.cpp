// ModelConfig as JSON in plumb's own keys: only what differs from the defaults is written for the layers'
// runs.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/json.h"
#include "model/config_json.h"
#include "plumb/config.h"
#include "plumb/config_fields.h"
#include "plumb/error.h"
#include "plumb/suggest.h"

namespace plumb {
namespace {

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
void write(OrderedJson& out, const char* name, const T& value) {
  if constexpr (IsOptional<T>::value) {
    if (value) write(out, name, *value);
  } else if constexpr (std::is_enum_v<T>) {
    out[name] = enum_name(value);
  } else {
    out[name] = value;
  }
}

[[noreturn]] void wrong_type(const char* name, const Json& got, const char* expected) {
  throw Error(ErrorKind::config, fmt::format("config key {} is {}, expected {}", name, got.dump(), expected));
}

template <class T>
void read(const Json& j, const char* name, T& value) {
  if constexpr (IsOptional<T>::value) {
    if (j.is_null()) {
      value.reset();
      return;
    }
    typename T::value_type inner{};
    read(j, name, inner);
    value = inner;
  } else if constexpr (std::is_enum_v<T>) {
    const auto& names = EnumNames<T>::names;
    if (!j.is_string()) wrong_type(name, j, "a name");
    const auto it = std::find(names.begin(), names.end(), j.get<std::string>());
    if (it == names.end()) {
      throw Error(ErrorKind::config,
                  fmt::format("config key {} is \"{}\", expected one of {}{}", name, j.get<std::string>(),
                              fmt::join(names, ", "),
                              did_you_mean(j.get<std::string>(), {names.begin(), names.end()})));
    }
    value = static_cast<T>(it - names.begin());
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!j.is_boolean()) wrong_type(name, j, "true or false");
    value = j.get<bool>();
  } else if constexpr (std::is_same_v<T, int64_t>) {
    if (!j.is_number_integer() || (j.is_number_unsigned() && j.get<uint64_t>() > INT64_MAX))
      wrong_type(name, j, "a whole number");
    value = j.get<int64_t>();
  } else if constexpr (std::is_same_v<T, double>) {
    if (!j.is_number()) wrong_type(name, j, "a number");
    value = j.get<double>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!j.is_string()) wrong_type(name, j, "a text");
    value = j.get<std::string>();
  } else {
    if (!j.is_array()) wrong_type(name, j, "a list");
    value.clear();
    for (const Json& item : j) {
      typename T::value_type one{};
      read(item, name, one);
      value.push_back(std::move(one));
    }
  }
}

void check_keys(const Json& j, const std::vector<std::string>& known, const std::string& where) {
  if (!j.is_object()) throw Error(ErrorKind::config, fmt::format("{} is not a JSON object", where));
  for (const auto& [key, value] : j.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string hint = nearest_name(key, known);
    throw Error(ErrorKind::config, fmt::format("unknown key \"{}\" in {}{}", key, where,
                                               hint.empty() ? "" : "; did you mean \"" + hint + "\"?"));
  }
}

OrderedJson runs_to_json(const std::vector<LayerRun>& runs, const LayerConfig& base) {
  OrderedJson list = OrderedJson::array();
  for (const LayerRun& run : runs) {
    const OrderedJson defaults = layer_fields(base), own = layer_fields(run.layer);
    OrderedJson j;
    j["first"] = run.first;
    j["count"] = run.count;
    for (const auto& [key, value] : own.items()) {
      if (!defaults.contains(key) || defaults[key] != value) j[key] = value;
    }
    for (const auto& [key, value] : defaults.items()) {
      if (!own.contains(key)) j[key] = nullptr;
    }
    list.push_back(j);
  }
  return list;
}

std::vector<LayerRun> runs_from_json(const Json& list, const LayerConfig& base, const std::string& where) {
  if (!list.is_array()) throw Error(ErrorKind::config, where + " is not a list of runs of layers");
  std::vector<LayerRun> runs;
  for (const Json& j : list) {
    LayerRun run{.layer = base};
    std::vector<std::string> known{"first", "count"};
    visit_layer(run.layer, [&](const char* name, auto&, const char*) { known.push_back(name); });
    check_keys(j, known, where);
    if (!j.contains("first") || !j.contains("count"))
      throw Error(ErrorKind::config, where + ": a run needs first and count");
    read(j["first"], "first", run.first);
    read(j["count"], "count", run.count);
    visit_layer(run.layer, [&](const char* name, auto& v, const char*) {
      if (j.contains(name)) read(j[name], name, v);
    });
    runs.push_back(run);
  }
  return runs;
}

}  // namespace

OrderedJson config_fields(const ModelConfig& config) {
  OrderedJson j;
  visit(config, [&](const char* name, const auto& v, const char*) { write(j, name, v); });
  return j;
}

OrderedJson layer_fields(const LayerConfig& layer) {
  OrderedJson j;
  visit_layer(layer, [&](const char* name, const auto& v, const char*) { write(j, name, v); });
  return j;
}

void set_fields(const Json& object, const std::string& where, std::span<const std::string_view> allowed,
                ModelConfig& config) {
  check_keys(object, {allowed.begin(), allowed.end()}, where);
  visit(config, [&](const char* name, auto& v, const char*) {
    if (object.contains(name)) read(object[name], name, v);
  });
}

std::string to_json(const ModelConfig& config) {
  OrderedJson j = config_fields(config);
  if (!config.encoder_runs.empty()) j["encoder_runs"] = runs_to_json(config.encoder_runs, config.layer);
  if (!config.decoder_runs.empty()) j["decoder_runs"] = runs_to_json(config.decoder_runs, config.layer);
  return dump_json(j) + "\n";
}

ModelConfig config_from_json(const std::string& text) {
  const Json j = parse_json(text, "config.json");
  ModelConfig c;
  std::vector<std::string> known{"encoder_runs", "decoder_runs"};
  visit(c, [&](const char* name, auto&, const char*) { known.push_back(name); });
  check_keys(j, known, "config.json");
  visit(c, [&](const char* name, auto& v, const char*) {
    if (j.contains(name)) read(j[name], name, v);
  });
  if (j.contains("encoder_runs")) c.encoder_runs = runs_from_json(j["encoder_runs"], c.layer, "encoder_runs");
  if (j.contains("decoder_runs")) c.decoder_runs = runs_from_json(j["decoder_runs"], c.layer, "decoder_runs");
  return c;
}

}  // namespace plumb
