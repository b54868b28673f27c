// What a model's folder consists of, written together.
#pragma once

#include <string>

#include "model/generation_defaults.h"
#include "model/weights.h"
#include "plumb/model.h"

namespace plumb {

constexpr uint64_t kShardBytes = 5'000'000'000;  // most of one file of weights, where nobody says otherwise

DType dtype_of(StoredType type);

struct FolderContent {
  const ModelConfig& config;  // its model_type is the family that names are of
  const ParameterTable& table;
  const GenerationDefaults& generation;
};
// config.json, generation_config.json and the weights, each beside and renamed. Throws Error(config) where
// the family's files can't hold the model, before anything is written; Error(numeric, file).
void write_folder(const std::string& folder, const FolderContent& content, const Storing& storing);

}  // namespace plumb
