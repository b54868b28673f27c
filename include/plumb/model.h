// A Transformer with its weights. START HERE when reading: src/model/transformer.h.
//
// Threads: a Model may be read (infer, save, count) from several threads; training changes it and wants it
// alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plumb/config.h"

namespace plumb {

class Transformer;  // internal

struct ParameterInfo {
  std::string name;       // in plumb's own words: decoder.0.attention.query.weight
  std::string file_name;  // in the family's weight file
  std::vector<int64_t> shape;
  std::string role;  // matrix, embedding, bias, gain, gate, statistic
  std::string init;  // N(0, 0.02), 1
  bool decays = false;
  bool trainable = true;
};

enum class StoredType { f32, bf16, f16 };

class Model {
 public:
  // Fresh weights, drawn from the seed. Throws Error(config).
  static Model create(const ModelConfig& config, uint64_t seed);
  // A Hugging Face folder: config.json and model.safetensors (or shards with their index). Throws Error(file,
  // config, unsupported) that names the tensor or key. A tensor missing, unused, misshapen or present twice
  // is an error.
  static Model load(const std::string& folder);
  // Writes config.json, generation_config.json and model.safetensors into the folder, each beside and
  // renamed.
  void save(const std::string& folder, StoredType type = StoredType::f32) const;

  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  const ModelConfig& config() const;
  std::vector<ParameterInfo> parameters() const;
  int64_t parameter_count() const;  // numbers that train
  double flops_per_token(int64_t length,
                         bool training) const;  // of matrix products and attention at this length

  // Parameters whose name matches none of these prefixes stay as they are while training.
  void freeze(const std::function<bool(const std::string& name)>& frozen);

  Transformer& transformer() const;  // internal

 private:
  Model();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plumb
