// A model's weights in and out of the files of a Hugging Face folder (weight_files.h).
#pragma once

#include <cstdint>
#include <string>

#include "nn/parameter.h"

namespace plumb {

// Gives every parameter its value: mapped where the file stores it aligned and as it is used (matrices and
// embeddings in f32, f16 or bf16, the rest in f32), else widened to f32; a copy where the file has another
// layout. Throws Error(file, unsupported) for
// a tensor that is missing, that no parameter or exception of the family explains, of another shape, present
// twice, or not a float.
void load_weights(const std::string& folder, const ModelConfig& config, ParameterTable& table);

// Matrices with what their adapters change in them.
struct Storing {
  DType dtype = DType::f32;
  uint64_t shard_bytes = UINT64_MAX;  // most of a file
};
void save_weights(const std::string& folder, const ModelConfig& config, const ParameterTable& table,
                  const Storing& storing);

}  // namespace plumb
