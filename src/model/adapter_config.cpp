#include "model/adapter_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "model/json_fields.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr const char* kFile = "adapter_config.json";

// Of no consequence to what an adapter computes.
constexpr std::string_view kSilent[] = {
    "auto_mapping", "fan_in_fan_out", "inference_mode",    "megatron_core", "peft_version",  "revision",
    "task_type",    "runtime_config", "qalora_group_size", "lora_dropout",  "layers_pattern"};
constexpr std::string_view kRead[] = {
    "base_model_name_or_path", "bias",     "init_lora_weights", "lora_alpha", "peft_type", "r",
    "target_modules",          "use_dora", "use_rslora"};

template <size_t N>
bool among(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool says_nothing(const Json& value) {
  return value.is_null() || value == false || ((value.is_object() || value.is_array()) && value.empty());
}

[[noreturn]] void refuse(const JsonFields& fields, const std::string& key, const std::string& supported) {
  throw Error(ErrorKind::unsupported,
              fmt::format("{}: \"{}\" is {}, which plumb does not support: {}", fields.name(), key,
                          fields.raw(key.c_str()).dump(), supported));
}

// Some starts of A and B change the base model with them.
void check_start(const JsonFields& fields) {
  const Json& start = fields.raw("init_lora_weights");
  if (start.is_null() || start.is_boolean() || start == "gaussian" || start == "eva" || start == "orthogonal")
    return;
  refuse(fields, "init_lora_weights", "its adapters are for another base model than the published one");
}

void check_keys(const JsonFields& fields) {
  const std::string type = fields.text("peft_type", "");
  if (type != "LORA")
    refuse(fields, "peft_type", "adapters are of type LORA (also with use_dora or use_rslora)");
  if (fields.text("bias", "none") != "none") refuse(fields, "bias", "biases stay as they are (\"none\")");
  check_start(fields);
  for (const auto& [key, value] : fields.all().items()) {
    if (!among(kSilent, key) && !among(kRead, key) && !says_nothing(value))
      refuse(fields, key, "it has to be null, false or empty");
  }
}

std::vector<std::string> targets_of(const JsonFields& fields) {
  const Json& targets = fields.raw("target_modules");
  if (targets.is_string()) return {targets.get<std::string>()};
  std::vector<std::string> names = fields.texts("target_modules");
  if (names.empty()) throw Error(ErrorKind::config, fields.name() + ": \"target_modules\" names no module");
  return names;
}

}  // namespace

bool is_pattern(const std::vector<std::string>& targets) {
  constexpr std::string_view of_names = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return targets.size() == 1 && targets[0].find_first_not_of(of_names) != std::string::npos;
}

bool is_adapter(const std::string& folder) {
  return path_exists(join_path(folder, kFile));
}

std::string adapter_base(const std::string& folder) {
  return read_adapter_config(folder).base;
}

AdapterConfig read_adapter_config(const std::string& folder) {
  const std::string path = join_path(folder, kFile);
  const JsonFields fields(parse_json_file(path), path);
  check_keys(fields);
  AdapterConfig c;
  c.base = fields.text("base_model_name_or_path", "");
  AdapterOptions& o = c.options;
  o.rank = fields.integer("r", 8);
  o.alpha = fields.number("lora_alpha", 8);
  o.dropout = fields.number("lora_dropout", 0);
  o.dora = fields.flag("use_dora", false);
  o.rslora = fields.flag("use_rslora", false);
  o.targets = targets_of(fields);
  if (o.rank < 1 || o.rank > 1'000'000) fields.wrong("r", "a rank of at least 1");
  if (!(o.alpha > 0)) fields.wrong("lora_alpha", "a number above 0");
  if (!(o.dropout >= 0 && o.dropout < 1)) fields.wrong("lora_dropout", "a probability below 1");
  return c;
}

void write_adapter_config(const std::string& folder, const AdapterConfig& config) {
  const AdapterOptions& o = config.options;
  OrderedJson j;
  j["base_model_name_or_path"] = config.base;
  j["bias"] = "none";
  j["fan_in_fan_out"] = config.in_out;
  j["inference_mode"] = true;
  j["lora_alpha"] = o.alpha;
  j["lora_dropout"] = o.dropout;
  j["peft_type"] = "LORA";
  j["r"] = o.rank;
  if (is_pattern(o.targets)) {
    j["target_modules"] = o.targets[0];
  } else {
    j["target_modules"] = o.targets;
  }
  j["task_type"] = "CAUSAL_LM";
  j["use_dora"] = o.dora;
  j["use_rslora"] = o.rslora;
  write_file_atomically(join_path(folder, kFile), dump_json(j) + "\n");
}

}  // namespace plumb
