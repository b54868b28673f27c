#include "plumb/model.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/machine.h"
#include "model/adapter.h"
#include "model/cost.h"
#include "model/families.h"
#include "model/generation_defaults.h"
#include "model/model_folder.h"
#include "model/profile.h"
#include "model/transformer.h"
#include "plumb/error.h"

namespace plumb {
namespace {

std::string_view torch_name(DType type) {
  return type == DType::f32 ? "float32" : type == DType::bf16 ? "bfloat16" : "float16";
}

// What a model that trains holds: each number, and its gradient.
void expect_room(const ParameterTable& table) {
  double bytes = 0;
  for (const auto& p : table.all())
    bytes += (p->trainable ? 8.0 : 4.0) * static_cast<double>(p->shape.numel());
  expect_memory(bytes, "the model's weights and their gradients");
}

}  // namespace

DType dtype_of(StoredType type) {
  switch (type) {
    case StoredType::f32:
      return DType::f32;
    case StoredType::bf16:
      return DType::bf16;
    case StoredType::f16:
      return DType::f16;
  }
  return DType::f32;
}

void write_folder(const std::string& folder, const FolderContent& content, const Storing& storing) {
  const std::string config = write_config(content.config, torch_name(storing.dtype));
  make_folder(folder);
  save_weights(folder, content.config, content.table, storing);
  write_file_atomically(join_path(folder, "generation_config.json"), generation_to_json(content.generation));
  write_file_atomically(join_path(folder, "config.json"), config);
}

struct Model::Impl {
  explicit Impl(const ModelConfig& config) : transformer(config), generation(generation_defaults(config)) {}

  Transformer transformer;
  GenerationDefaults generation;
  std::string folder;                     // that it was loaded from; of an adapted model, its base's
  std::optional<AdapterOptions> adapter;  // of the one that it has
  bool trainable = false;
  bool fresh = false;
};

Model::Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Model Model::create(const ModelConfig& config, uint64_t seed) {
  validate(config);
  if (std::string why; !family_fits(config, &why)) throw Error(ErrorKind::config, why);
  Model model;
  model.impl_ = std::make_unique<Impl>(config);
  expect_room(model.impl_->transformer.parameters());
  model.impl_->transformer.parameters().initialize(seed);
  model.impl_->trainable = model.impl_->fresh = true;
  if (wants_profile(config)) profile_shortcuts(model.impl_->transformer, seed);
  return model;
}

namespace {

// The folder of an adapter's model.
std::string base_of(const std::string& adapter, const AdapterConfig& config, const std::string& said) {
  std::string base = said.empty() ? config.base : said;
  if (base.empty() || !is_folder(base)) {
    throw Error(ErrorKind::file,
                fmt::format("{} is an adapter for the model \"{}\", and there is no such folder here: "
                            "--base names the model's folder",
                            adapter, base));
  }
  if (is_adapter(base))
    throw Error(ErrorKind::unsupported, base + " is an adapter, too: merge it first (plumb merge)");
  return base;
}

}  // namespace

Model Model::load(const std::string& folder, const std::string& base) {
  if (!is_folder(folder))
    throw Error(ErrorKind::file, fmt::format("{} is not a folder that holds a model", folder));
  if (is_adapter(folder)) {
    const AdapterConfig adapter = read_adapter_config(folder);
    Model model = load(base_of(folder, adapter, base));
    load_adapter(folder, model.config(), model.transformer().parameters(), adapter.options);
    model.impl_->adapter = adapter.options;
    return model;
  }
  const std::string config_path = join_path(folder, "config.json");
  const std::string text = read_file(config_path);
  const ModelConfig config = read_config(text, config_path);
  Model model;
  model.impl_ = std::make_unique<Impl>(config);
  load_weights(folder, config, model.impl_->transformer.parameters());
  model.impl_->folder = absolute_path(folder);
  const std::string generation = join_path(folder, "generation_config.json");
  const bool separate = path_exists(generation);
  GenerationDefaults& defaults = model.impl_->generation;
  if (separate || config.model_type != kPlumbline.type) {
    defaults = generation_from_json(separate ? read_file(generation) : text,
                                    separate ? generation : config_path, defaults);
  }
  return model;
}

void Model::save(const std::string& folder, StoredType type) const {
  if (impl_->adapter) {
    return save_adapter(folder, config(), transformer().parameters(), *impl_->adapter, impl_->folder);
  }
  write_folder(folder, {.config = config(), .table = transformer().parameters(), .generation = generation()},
               {.dtype = dtype_of(type), .shard_bytes = kShardBytes});
}

const ModelConfig& Model::config() const {
  return impl_->transformer.config();
}
Transformer& Model::transformer() const {
  return impl_->transformer;
}
const GenerationDefaults& Model::generation() const {
  return impl_->generation;
}

std::vector<ParameterInfo> Model::parameters() const {
  return parameter_infos(config(), transformer().parameters());
}

int64_t Model::parameter_count() const {
  return transformer().parameters().count();
}

ModelCost Model::cost(int64_t length) const {
  return model_cost(config(), transformer().parameters(), length);
}

void Model::make_trainable() {
  if (impl_->trainable) return;
  ParameterTable& table = impl_->transformer.parameters();
  for (const auto& p : table.all()) p->value = owned_f32(p->value);
  table.set_gradients();
  impl_->trainable = true;
}

bool Model::fresh() const {
  return impl_->fresh;
}
void Model::no_longer_fresh() {
  impl_->fresh = false;
}

void Model::hold_as(StoredType type) {
  transformer().parameters().hold_as(dtype_of(type));
  impl_->trainable = false;
}

void Model::adapt(const AdapterOptions& options, uint64_t seed) {
  if (impl_->adapter)
    throw Error(ErrorKind::usage, "the model has an adapter already: merge it first (plumb merge)");
  if (impl_->folder.empty())
    throw Error(ErrorKind::usage, "an adapter is for a model that is in a folder: --lora needs --from");
  ParameterTable& table = impl_->transformer.parameters();
  add_adapter(config(), table, options, seed);
  impl_->adapter = options;
  if (impl_->trainable) table.set_gradients();
}

bool Model::adapted() const {
  return impl_->adapter.has_value();
}

void Model::freeze(const std::function<bool(const std::string& name)>& frozen) {
  ParameterTable& table = impl_->transformer.parameters();
  for (const auto& p : table.all()) {
    const bool can = p->role != Role::statistic && (!adapted() || p->adapts);
    p->trainable = can && !frozen(p->name);
  }
  if (impl_->trainable) table.set_gradients();
}

}  // namespace plumb
