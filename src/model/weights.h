// A model's weights in and out of a Hugging Face folder: model.safetensors, or shards that
// model.safetensors.index.json lists.
#pragma once

#include <string>
#include <vector>

#include "model/safetensors.h"
#include "nn/parameter.h"

namespace plumb {

// model.safetensors, or the shards that its index lists, each with all that the index says it holds. Throws
// Error(file, unsupported).
std::vector<SafetensorsFile> open_weights(const std::string& folder);

// Gives every parameter its value: mapped where the file stores it aligned and as it is used (matrices and
// embeddings in f32, f16 or bf16, the rest in f32), else widened to f32; a copy where the file has another
// layout. Throws Error(file, unsupported) for
// a tensor that is missing, that no parameter or exception of the family explains, of another shape, present
// twice, or not a float.
void load_weights(const std::string& folder, const ModelConfig& config, ParameterTable& table);

void save_weights(const std::string& path, const ModelConfig& config, const ParameterTable& table,
                  DType stored);

}  // namespace plumb
