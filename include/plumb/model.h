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

class Transformer;          // internal
struct GenerationDefaults;  // internal

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
  // Of matrix products and attention, per token of a sequence of this length: 2 N + 4 L C T to run, three
  // times that to train (6 N + 12 L C T), N being the parameters less the position and unshared look-up
  // tables' rows.
  double flops_per_token(int64_t length, bool training) const;

  // A loaded model's weights lie in the mapped file, as they are stored there, and can only be read. This
  // gives each f32 memory of its own, and those that train a gradient. Whoever trains calls it first; it does
  // nothing the second time, nor to a created model.
  void make_trainable();
  // Parameters that the predicate names stay as they are while training.
  void freeze(const std::function<bool(const std::string& name)>& frozen);

  Transformer& transformer() const;              // internal
  const GenerationDefaults& generation() const;  // internal

 private:
  Model();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plumb
