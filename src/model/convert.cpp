#include "plumb/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "model/model_folder.h"
#include "model/transformer.h"
#include "ops/linear.h"
#include "plumb/error.h"

namespace plumb {
namespace {

namespace fs = std::filesystem;

// Whether the type holds these numbers as they are.
bool holds(DType type, const Tensor& numbers) {
  const Tensor wide = owned_f32(numbers);
  return std::all_of(wide.f32(), wide.f32() + wide.numel(), [&](float x) {
    return type == DType::f32 || (type == DType::bf16 ? to_float(to_bf16(x)) : to_float(to_f16(x))) == x;
  });
}

// What the file holds its matrices in, if that goes for the rest, which loading widens; else f32.
DType stored_type(const ParameterTable& table) {
  std::optional<DType> stored;
  for (const auto& p : table.all()) {
    if (p->adapts || (p->role != Role::matrix && p->role != Role::embedding)) continue;
    if (stored && *stored != p->value.dtype()) return DType::f32;
    stored = p->value.dtype();
  }
  const DType type = stored.value_or(DType::f32);
  const auto fits = [&](const auto& p) { return holds(type, p->value); };
  return std::ranges::all_of(table.all(), fits) ? type : DType::f32;
}

// Weights, their indexes and what write_folder() writes stay behind.
bool is_beside(const fs::path& file) {
  const std::string name = file.filename().string(), kind = file.extension().string();
  const bool text =
      kind == ".json" || kind == ".txt" || kind == ".model" || kind == ".tiktoken" || kind == ".jinja";
  return text && name != "config.json" && name != "generation_config.json" && name != "adapter_config.json" &&
         !name.ends_with(".index.json");
}

void copy_beside(const std::string& from, const std::string& to) try {
  for (const auto& entry : fs::directory_iterator(from)) {
    if (entry.is_regular_file() && is_beside(entry.path()))
      fs::copy_file(entry.path(), fs::path(to) / entry.path().filename(),
                    fs::copy_options::overwrite_existing);
  }
} catch (const fs::filesystem_error& error) {
  throw Error(ErrorKind::file, fmt::format("the files beside the weights of {} can't be copied: {}", from,
                                           error.code().message()));
}

}  // namespace

void convert_model(const std::string& from, const std::string& to, const ConvertOptions& options) {
  std::error_code none;
  if (fs::equivalent(from, to, none))
    throw Error(ErrorKind::usage, "convert writes another folder than the one it reads: " + to);
  const Model model = Model::load(from, options.base);
  ModelConfig config = model.config();
  if (!options.model_type.empty()) config.model_type = options.model_type;
  const ParameterTable& table = model.transformer().parameters();
  write_folder(to, {.config = config, .table = table, .generation = model.generation()},
               {.dtype = options.type ? dtype_of(*options.type) : stored_type(table),
                .shard_bytes = options.shard_bytes});
  if (is_adapter(from)) copy_beside(options.base.empty() ? adapter_base(from) : options.base, to);
  copy_beside(from, to);
}

}  // namespace plumb
