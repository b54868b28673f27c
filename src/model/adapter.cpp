#include "model/adapter.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/file.h"
#include "base/hash.h"
#include "base/random.h"
#include "model/families.h"
#include "model/safetensors.h"
#include "model/tensor_names.h"
#include "plumb/error.h"
#include "plumb/suggest.h"
#include "text/regex.h"

namespace plumb {
namespace {

constexpr const char* kFile = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.", kWeight = ".weight";
constexpr const char* kAllLinear = "all-linear";

// A linear map that a file has as a tensor of its own.
struct Module {
  std::string name;  // "model.layers.0.self_attn.q_proj"
  Parameter* weight = nullptr;
  std::vector<int64_t> rows;  // FileTensor::rows
};

std::vector<Module> modules_of(const ModelConfig& config, const ParameterTable& table) {
  std::vector<Module> modules;
  const TensorNames names(config, table);
  for (const FileTensor& t : names.all()) {
    const bool whole = t.parts.size() == 1 && !t.stacked && t.slices == 1 && t.name.ends_with(kWeight);
    if (!whole || !t.parts[0]->of_linear || t.parts[0]->gamma) continue;
    modules.push_back({t.name.substr(0, t.name.size() - kWeight.size()), t.parts[0], t.rows});
  }
  return modules;
}

// Of these the published code's newer versions have no modules.
bool is_routed(const Parameter& p) {
  return p.name.find(".router.") != std::string::npos || p.name.find(".experts.") != std::string::npos;
}

bool names_module(const std::string& target, const std::string& module) {
  return module == target || module.ends_with("." + target);
}

bool fits_whole(const Regex& pattern, const std::string& name) {
  Regex::Matches matches(pattern, name);
  size_t begin = 0, end = 0;
  return matches.next(begin, end);
}

// "q_proj, k_proj, ..."
std::vector<std::string> leaves_of(const std::vector<Module>& modules) {
  std::set<std::string> leaves;
  for (const Module& m : modules) leaves.insert(m.name.substr(m.name.rfind('.') + 1));
  return {leaves.begin(), leaves.end()};
}

[[noreturn]] void refuse_target(const std::string& target, const std::vector<Module>& modules) {
  const std::vector<std::string> leaves = leaves_of(modules);
  throw Error(ErrorKind::usage,
              fmt::format("no linear map that can have an adapter is called \"{}\"{}; there are {}", target,
                          did_you_mean(target, leaves), fmt::join(leaves, ", ")));
}

std::vector<Module> chosen(const std::vector<Module>& all, const std::vector<std::string>& targets) {
  std::vector<Module> some;
  const auto keep = [&](auto&& wanted) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(some), wanted);
  };
  if (targets.empty() || targets == std::vector<std::string>{kAllLinear}) {
    keep([](const Module& m) { return !is_routed(*m.weight); });
  } else if (is_pattern(targets)) {
    const Regex pattern("\\A(?:" + targets[0] + ")\\z");
    keep([&](const Module& m) { return fits_whole(pattern, m.name); });
  } else {
    for (const std::string& target : targets) {
      const auto named = [&](const Module& m) { return names_module(target, m.name); };
      if (std::none_of(all.begin(), all.end(), named)) refuse_target(target, all);
    }
    keep([&](const Module& m) {
      return std::any_of(targets.begin(), targets.end(),
                         [&](const auto& t) { return names_module(t, m.name); });
    });
  }
  if (some.empty()) refuse_target(targets.empty() ? kAllLinear : targets[0], all);
  return some;
}

double scale_of(const AdapterOptions& o) {
  const auto rank = static_cast<double>(o.rank);
  return (o.alpha > 0 ? o.alpha : rank) / (o.rslora ? std::sqrt(rank) : rank);
}

// "decoder.0.attention.query.lora_A", beside ".weight".
std::string beside(const Parameter& weight, const char* leaf) {
  return weight.name.substr(0, weight.name.rfind('.') + 1) + leaf;
}

void add_parts(ParameterTable& table, Parameter& weight, const AdapterOptions& o) {
  const int64_t outputs = weight.in_out ? weight.shape[1] : weight.shape[0];
  const int64_t inputs = weight.shape.numel() / std::max<int64_t>(1, outputs);
  const auto part = [&](const char* leaf, Shape shape, Role role, std::string_view starts_as) {
    Parameter* p = table.add({.name = beside(weight, leaf),
                              .shape = std::move(shape),
                              .role = role,
                              .adapts = &weight,
                              .starts_as = starts_as});
    p->value = Tensor::zeros(p->shape);
    return p;
  };
  Adapter adapter{.scale = scale_of(o), .dropout = o.dropout, .site = hash_bytes(weight.name)};
  adapter.a = part("lora_A", {o.rank, inputs}, Role::matrix, "U(-1, 1) / sqrt(in)");
  adapter.b = part("lora_B", {outputs, o.rank}, Role::matrix, "0");
  if (o.dora) {
    adapter.magnitude = part("lora_magnitude", {outputs}, Role::gain, "|W| by output");
    adapter.inverse_norm = part("lora_inverse_norm", {outputs}, Role::statistic, "1 / |W| by output");
  }
  weight.adapter = adapter;
}

// Parameters of zeros, and nothing else that trains.
std::vector<Module> add_modules(const std::vector<Module>& modules, ParameterTable& table,
                                const AdapterOptions& o) {
  for (const auto& p : table.all()) p->trainable = false;
  for (const Module& m : modules) add_parts(table, *m.weight, o);
  return modules;
}

// A tensor of the file, of a module: A, B or a magnitude. Rows of the last two are the outputs'.
FileTensor part_in_file(const Module& m, Parameter* p) {
  const Adapter& a = *m.weight->adapter;
  const char* suffix = p == a.a ? ".lora_A.weight" : p == a.b ? ".lora_B.weight" : ".lora_magnitude_vector";
  FileTensor t{.name = m.name + suffix, .shape = p->shape, .parts = {p}};
  if (p != a.a) t.rows = m.rows;
  return t;
}

std::vector<FileTensor> parts_in_file(const std::vector<Module>& modules) {
  std::vector<FileTensor> parts;
  parts.reserve(3 * modules.size());
  for (const Module& m : modules) {
    const Adapter& a = *m.weight->adapter;
    for (Parameter* p : {a.a, a.b, a.magnitude}) {
      if (p) parts.push_back(part_in_file(m, p));
    }
  }
  return parts;
}

// The name without what stands before the base model's own, which may be missing or there.
std::string bare(std::string_view name, std::string_view family_prefix) {
  if (name.starts_with(family_prefix)) name.remove_prefix(family_prefix.size());
  return std::string(name);
}

// What a file calls a part, without the words before its module and after its kind.
std::string part_name(const TensorFile& file, const std::string& entry, std::string_view family_prefix) {
  if (!entry.starts_with(kPrefix)) {
    throw Error(ErrorKind::file,
                fmt::format("{}: tensor {} does not begin with \"{}\", as those of an adapter do",
                            file.path(), quote_json(entry), kPrefix));
  }
  std::string name = bare(std::string_view(entry).substr(kPrefix.size()), family_prefix);
  if (name.ends_with(".lora_magnitude_vector.weight")) name.resize(name.size() - kWeight.size());
  return name;
}

void set_part(const FileTensor& part, const TensorFile& file, const TensorFile::Entry& entry) {
  const std::string tensor = fmt::format("{}: tensor {}", file.path(), quote_json(entry.name));
  if (entry.shape != part.shape) {
    throw Error(ErrorKind::file,
                fmt::format("{} has the shape {}, but by adapter_config.json and the model it is {}", tensor,
                            entry.shape.str(), part.shape.str()));
  }
  if (entry.dtype != DType::f32 && entry.dtype != DType::f16 && entry.dtype != DType::bf16) {
    throw Error(ErrorKind::unsupported,
                fmt::format("{} is stored as {}; plumb reads weights in F32, F16 and BF16", tensor,
                            dtype_name(entry.dtype)));
  }
  part.parts[0]->value = owned_f32(part.part(file.tensor(entry), 0));
}

// Without the maps of the routed kind that the file has no tensors of.
std::vector<Module> in_file(std::vector<Module> modules, const TensorFile& file,
                            std::string_view family_prefix) {
  std::set<std::string> names;
  for (const auto& entry : file.entries()) names.insert(part_name(file, entry.name, family_prefix));
  std::erase_if(modules, [&](const Module& m) {
    return is_routed(*m.weight) && !names.contains(bare(m.name, family_prefix) + ".lora_A.weight");
  });
  return modules;
}

}  // namespace

void add_adapter(const ModelConfig& config, ParameterTable& table, const AdapterOptions& options,
                 uint64_t seed) {
  for (const Module& m : add_modules(chosen(modules_of(config, table), options.targets), table, options)) {
    const Adapter& adapter = *m.weight->adapter;
    const Tensor& a = adapter.a->value;
    const double bound = 1 / std::sqrt(static_cast<double>(a.width()));
    const RandomKey key{seed, hash_bytes(adapter.a->name)};
    for (int64_t i = 0; i < a.numel(); ++i)
      a.f32()[i] = static_cast<float>(bound * (2 * random_uniform(key, static_cast<uint64_t>(i)) - 1));
    if (!adapter.magnitude) continue;
    adapter.a->follow();
    for (int64_t i = 0; i < adapter.magnitude->value.numel(); ++i) {
      const float inverse = adapter.inverse_norm->value.f32()[i];
      adapter.magnitude->value.f32()[i] = inverse > 0 ? 1 / inverse : 0;
    }
  }
}

void load_adapter(const std::string& folder, const ModelConfig& config, ParameterTable& table,
                  const AdapterOptions& options) {
  const SafetensorsFile file(join_path(folder, kFile));
  const std::string_view prefix = family(config.model_type).prefix;
  const std::vector<Module> modules =
      add_modules(in_file(chosen(modules_of(config, table), options.targets), file, prefix), table, options);
  std::map<std::string, FileTensor> parts;
  for (FileTensor& t : parts_in_file(modules)) parts.emplace(bare(t.name, prefix), t);
  std::set<std::string> seen;
  for (const auto& entry : file.entries()) {
    const std::string name = part_name(file, entry.name, prefix);
    const auto part = parts.find(name);
    if (part == parts.end()) {
      throw Error(ErrorKind::file, fmt::format("{}: tensor {} belongs to no map of the {} model that "
                                               "adapter_config.json names",
                                               file.path(), quote_json(entry.name), config.model_type));
    }
    if (!seen.insert(name).second)
      throw Error(ErrorKind::file,
                  fmt::format("{}: tensor {} is there twice", file.path(), quote_json(entry.name)));
    set_part(part->second, file, entry);
  }
  for (const auto& [name, part] : parts) {
    if (!seen.contains(name))
      throw Error(ErrorKind::file, fmt::format("{}: the adapter lacks tensor \"{}{}\" {}", file.path(),
                                               kPrefix, part.name, part.shape.str()));
  }
  for (const Module& m : modules) m.weight->adapter->a->follow();
}

void save_adapter(const std::string& folder, const ModelConfig& config, const ParameterTable& table,
                  const AdapterOptions& options, const std::string& base) {
  std::vector<Module> modules = modules_of(config, table);
  std::erase_if(modules, [](const Module& m) { return !m.weight->adapter; });
  std::vector<SavedTensor> tensors;
  for (const FileTensor& t : parts_in_file(modules)) {
    tensors.push_back({std::string(kPrefix) + t.name,
                       t.in_file([](const Parameter& p) { return p.value.without_grad(); })});
  }
  AdapterConfig said{.options = options, .base = base, .in_out = config.linear_in_out};
  if (options.alpha == 0) said.options.alpha = static_cast<double>(options.rank);
  if (options.targets.empty() || options.targets[0] == kAllLinear) {
    said.options.targets.clear();
    for (const Module& m : modules) said.options.targets.push_back(m.name);
  }
  make_folder(folder);
  write_safetensors(join_path(folder, kFile), std::move(tensors));
  write_adapter_config(folder, said);
}

Tensor merged_value(const Parameter& p) {
  if (!p.adapter) return p.value;
  return ops::merged({.weight = p.value, .bias = {}, .in_out = p.in_out}, p.adapter_weights());
}

}  // namespace plumb
