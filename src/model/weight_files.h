// The files that hold a folder's weights: model.safetensors, or shards that model.safetensors.index.json
// lists. pytorch_model.bin and its shards are read, too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/safetensors.h"
#include "model/tensor_file.h"

namespace plumb {

// The one file, or the shards that its index lists, each with all that the index says it holds. Safetensors
// come first where a folder has both formats. Throws Error(file, unsupported).
std::vector<TensorFile> open_weights(const std::string& folder);

// Tensors in their order, in files of at most so many bytes (a larger tensor has one of its own):
// model.safetensors, or model-00001-of-00002.safetensors and so on with their index. Files that were there
// before under such names are removed once the new ones are whole. Throws as write_safetensors().
void write_weights(const std::string& folder, std::vector<SavedTensor> tensors, uint64_t shard_bytes);

}  // namespace plumb
