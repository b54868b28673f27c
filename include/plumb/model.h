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

#include "plumb/adapter.h"
#include "plumb/config.h"
#include "plumb/config_fields.h"

namespace plumb {

class Transformer;          // internal
struct GenerationDefaults;  // internal

// Families whose files are read and written, by model_type; "plumbline" can hold any model.
std::vector<std::string> family_names();
// The architecture of a family at plumb's default sizes, without token ids: what --model-type starts from.
ModelConfig family_default(const std::string& model_type);
// Whether files of config.model_type can say what the config says; else `why` names the first field they
// can't.
bool family_fits(const ModelConfig& config, std::string* why = nullptr);

struct ParameterInfo {
  std::string name;       // in plumb's own words: decoder.0.attention.query.weight
  std::string file_name;  // in the family's weight file
  std::vector<int64_t> shape;
  std::string role;    // matrix, embedding, bias, gain, gate, statistic
  std::string stored;  // f32, bf16, f16; "" of a model that does not exist yet
  std::string init;    // N(0, 0.02), 1
  bool decays = false;
  bool trainable = true;
};

// Of a model that need not exist yet.
std::vector<ParameterInfo> model_parameters(const ModelConfig& config);

// What a model takes, at f32 and AdamW, in sequences of `length` tokens.
struct ModelCost {
  int64_t parameters = 0;  // numbers that can train
  // Of these, the ones that a token is multiplied with: without positions, types and look-up tables that are
  // not also the head, and of experts those that a token is sent to.
  int64_t multiplied = 0;
  double flops_per_token = 0;       // to run: 2 N + 4 L C T, N = multiplied; the causal half is not taken off
  double head_flops_per_token = 0;  // of these, the head's: masked training passes few tokens through it
  double training_flops_per_token =
      0;  // three times flops_per_token: 6 N + 12 L C T; less 2 for each that is frozen
  double head_training_flops_per_token = 0;
  int64_t weight_bytes = 0;
  int64_t optimizer_bytes = 0;  // gradients and both moments
  int64_t activation_bytes_per_token =
      0;                              // kept from the forward for the backward pass, without recomputation
  int64_t cache_bytes_per_token = 0;  // of one sequence, while decoding
};
ModelCost model_cost(const ModelConfig& config, int64_t length);

enum class StoredType { f32, bf16, f16 };
template <>
struct EnumNames<StoredType> {
  static constexpr std::array names{"f32", "bf16", "f16"};
};

class Model {
 public:
  // Fresh weights, drawn from the seed. Throws Error(config), also where the family's files can't hold the
  // model.
  static Model create(const ModelConfig& config, uint64_t seed);
  // A Hugging Face folder: config.json and model.safetensors (or shards with their index). Throws Error(file,
  // config, unsupported) that names the tensor or key. A tensor missing, unused, misshapen or present twice
  // is an error.
  //
  // Or the folder of an adapter: the model that it is for, by its adapter_config.json or `base`, with it.
  static Model load(const std::string& folder, const std::string& base = "");
  // Writes config.json, generation_config.json and model.safetensors into the folder, each beside and
  // renamed; of a model with an adapter, the adapter's files alone, in f32.
  void save(const std::string& folder, StoredType type = StoredType::f32) const;

  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  const ModelConfig& config() const;
  std::vector<ParameterInfo> parameters() const;
  int64_t parameter_count() const;  // numbers that train
  ModelCost cost(int64_t length) const;

  // A loaded model's weights lie in the mapped file, as they are stored there, and can only be read. This
  // gives each f32 memory of its own, and those that train a gradient. Whoever trains calls it first; it does
  // nothing the second time, nor to a created model.
  void make_trainable();
  // Holds matrices and embeddings in this type from now on, rounded: half the memory and half the time of a
  // token in 16 bits. For running; make_trainable() widens what is left. Throws Error(numeric) naming a
  // parameter that f16 can't hold.
  void hold_as(StoredType type);
  // Puts a fresh adapter on a model that was loaded, which alone trains from then on. Throws Error(usage) for
  // a target that is no linear map of it, for a model without a folder and for one that has an adapter.
  void adapt(const AdapterOptions& options, uint64_t seed);
  bool adapted() const;
  // Parameters that the predicate names stay as they are while training.
  void freeze(const std::function<bool(const std::string& name)>& frozen);

  // Created, and not trained since: inits that look at the data (Admin) may still be made anew.
  bool fresh() const;
  void no_longer_fresh();

  Transformer& transformer() const;              // internal
  const GenerationDefaults& generation() const;  // internal

 private:
  Model();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plumb
