// A model's folder as another one: stored in another dtype, in shards of another size, under another family's
// names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plumb/model.h"

namespace plumb {

struct ConvertOptions {
  std::optional<StoredType> type;        // unset: what matrices are stored in, or f32 where that rounds
  uint64_t shard_bytes = 5'000'000'000;  // most of one file of weights
  std::string base;        // of an adapter's folder, where its adapter_config.json does not say it
  std::string model_type;  // family whose names and config are written; empty: the model's own
};

// Reads `from` as Model::load() does and writes config.json, generation_config.json and the weights of `to`,
// which is another folder. The small files of text beside them, such as the tokenizer's, are copied;
// of an adapter's folder its weights are merged into those of its model, whose small files come first. Throws
// Error(usage) where the folders are one, Error(config) where the family can't hold the model, Error(numeric,
// file).
void convert_model(const std::string& from, const std::string& to, const ConvertOptions& options);

}  // namespace plumb
