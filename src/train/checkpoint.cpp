#include "train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "model/safetensors.h"
#include "plumb/error.h"
#include "train/options_json.h"

namespace plumb {
namespace {

constexpr int kVersion = 1;
constexpr std::string_view kPrefix = "step-", kSuffix = ".safetensors";

// Everything that has values and may change, sorted by name as it lies in the file.
std::vector<SavedTensor> tensors_of(const ParameterTable& parameters, const Optimizer& optimizer) {
  std::vector<SavedTensor> all;
  const bool adapted = parameters.adapted();
  for (const auto& p : parameters.all()) {
    const bool stays = adapted && !p->adapts && p->role != Role::statistic;
    if (!stays) all.push_back({"weight:" + p->name, p->value.without_grad()});
  }
  for (const Optimizer::State& s : optimizer.state()) all.push_back({s.name, s.value});
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return all;
}

void add_tensor(Hash& hash, const std::string& name, const Tensor& value) {
  hash.add(name);
  hash.add(hash_bytes({static_cast<const char*>(value.raw()), value.bytes()}));
}

std::string state_json(const RunState& s, const RunIdentity& identity, int64_t optimizer_steps) {
  OrderedJson j;
  j["version"] = kVersion;
  j["step"] = s.step;
  j["optimizer_steps"] = optimizer_steps;
  j["tokens"] = s.tokens;
  j["last_loss"] = s.last_loss;
  j["window"] = s.guard.window;
  j["skipped"] = s.guard.skipped;
  j["spikes"] = s.guard.spikes;
  j["skips_in_row"] = s.guard.skips_in_row;
  if (s.best_validation) j["best_validation"] = *s.best_validation;
  j["best_step"] = s.best_step;
  j["data"] = identity.data;
  if (!identity.base.empty()) j["base"] = identity.base;
  j["options"] = options_json(identity.options);
  j["config"] = OrderedJson::parse(to_json(identity.config));
  return dump_json(j, -1);
}

RunState state_of(const Json& j) {
  RunState s;
  s.step = j.at("step");
  s.tokens = j.at("tokens");
  s.last_loss = j.at("last_loss").is_null() ? 0.0 : j.at("last_loss").get<double>();
  s.guard.window = j.at("window").get<std::vector<double>>();
  s.guard.skipped = j.at("skipped");
  s.guard.spikes = j.at("spikes");
  s.guard.skips_in_row = j.at("skips_in_row");
  if (j.contains("best_validation")) s.best_validation = j.at("best_validation").get<double>();
  s.best_step = j.at("best_step");
  return s;
}

[[noreturn]] void damaged(const SafetensorsFile& file, const std::string& what) {
  throw Error(ErrorKind::file, file.path() + ": " + what);
}

std::string metadata(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end())
    damaged(file, "this is not a checkpoint: its metadata have no \"" + key + "\"");
  return found->second;
}

void check_content(const SafetensorsFile& file, const std::string& state) {
  Hash hash;
  hash.add(state);
  for (const SafetensorsFile::Entry& e : file.entries()) add_tensor(hash, e.name, file.tensor(e));
  if (hash_hex(hash.value()) != metadata(file, "checksum")) {
    damaged(file, "the content does not match its checksum: the file is damaged");
  }
}

void check_identity(const SafetensorsFile& file, const Json& state, const RunIdentity& identity) {
  if (config_from_json(state.at("config").dump()) != identity.config) {
    throw Error(ErrorKind::config, file.path() +
                                       " is of a model with another config; --from starts a new run from a "
                                       "model's weights");
  }
  if (state.value("base", "") != identity.base) {
    throw Error(ErrorKind::config, file.path() +
                                       " is of a run with other weights beside its adapter, or without one; "
                                       "--from starts a new run");
  }
  if (state.at("data") != identity.data) {
    throw Error(ErrorKind::input,
                file.path() +
                    " is of a run on other text, or with another tokenizer; --from goes on with new data "
                    "from a model's weights");
  }
  for (const std::string& change : option_changes(state.at("options"), identity.options)) {
    log_info("going on with " + change);
  }
}

}  // namespace

std::string checkpoint_path(const std::string& folder, int64_t step) {
  return join_path(folder, fmt::format("{}{:08}{}", kPrefix, step, kSuffix));
}

std::vector<int64_t> checkpoint_steps(const std::string& folder) {
  std::vector<int64_t> steps;
  if (!is_folder(folder)) return steps;
  for (const std::string& name : list_folder(folder)) {
    int64_t step = 0;
    const char* const end = name.data() + name.size();
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
    if (error == std::errc() && std::string_view(rest, end - rest) == kSuffix) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void write_checkpoint(const std::string& path, const RunState& state, const RunIdentity& identity,
                      const ParameterTable& parameters, const Optimizer& optimizer) {
  const std::vector<SavedTensor> tensors = tensors_of(parameters, optimizer);
  const std::string text = state_json(state, identity, optimizer.steps());
  Hash hash;
  hash.add(text);
  for (const SavedTensor& t : tensors) add_tensor(hash, t.name, t.value);
  make_folder(parent_folder(path));
  write_safetensors(path, tensors, {{"state", text}, {"checksum", hash_hex(hash.value())}});
}

RunState read_checkpoint(const std::string& path, const RunIdentity& identity,
                         const ParameterTable& parameters, Optimizer& optimizer) {
  const SafetensorsFile file(path);
  const std::string text = metadata(file, "state");
  check_content(file, text);
  const Json state = parse_json(text, path);
  if (state.value("version", 0) != kVersion) {
    damaged(file,
            fmt::format("its version is {}, and this build reads {}", state.value("version", 0), kVersion));
  }
  check_identity(file, state, identity);
  const std::vector<SavedTensor> tensors = tensors_of(parameters, optimizer);
  if (tensors.size() != file.entries().size()) {
    throw Error(ErrorKind::config,
                fmt::format("{} holds {} tensors and this run has {}: --optimizer, --momentum or "
                            "--freeze are not those of the run",
                            path, file.entries().size(), tensors.size()));
  }
  for (const SavedTensor& t : tensors) {
    const SafetensorsFile::Entry* e = file.find(t.name);
    if (!e || e->dtype != DType::f32 || e->shape != t.value.shape()) {
      throw Error(ErrorKind::config, fmt::format("{} has no {} {} in f32, which this run needs", path, t.name,
                                                 t.value.shape().str()));
    }
  }
  for (const SavedTensor& t : tensors)
    std::memcpy(t.value.raw(), file.tensor(*file.find(t.name)).raw(), t.value.bytes());
  optimizer.set_steps(state.at("optimizer_steps"));
  return state_of(state);
}

void prune_checkpoints(const std::string& folder, int64_t keep) {
  const std::vector<int64_t> steps = checkpoint_steps(folder);
  std::vector<std::string> kept;
  for (size_t i = steps.size() - std::min<size_t>(steps.size(), keep); i < steps.size(); ++i) {
    kept.push_back(checkpoint_path(folder, steps[i]));
  }
  for (const std::string& name : list_folder(folder)) {
    const std::string path = join_path(folder, name);
    if (name.find(kPrefix) == std::string::npos || std::find(kept.begin(), kept.end(), path) != kept.end())
      continue;
    remove_file(path);
  }
}

}  // namespace plumb
