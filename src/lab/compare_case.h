// What the tests of comparisons share: a small model, and models that are like it but for one thing.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "infer/test_models.h"
#include "lab/compare_data.h"
#include "model/safetensors.h"

namespace plumb::compare_test {

inline const CompareInput kInput{.ids = {3, 1, 4, 1, 5, 9, 2}};

inline ModelConfig small(Placement placement = Placement::pre_norm) {
  ModelConfig c;
  c.vocab_size = 17;
  c.width = 24;
  c.max_length = 16;
  c.decoder_layers = 3;
  c.layer.placement = placement;
  c.layer.norm = NormKind::layer_norm;
  c.layer.norm_bias = true;
  c.layer.heads = 4;
  c.layer.ffn_width = 32;
  c.tied_embeddings = false;
  return c;
}

inline Model made(const ModelConfig& config) {
  Model model = Model::create(config, 1);
  test::fill_weights(model.transformer().parameters(), 1);
  return model;
}

// A model of another config with the weights that both have.
inline Model like(const Model& from, const ModelConfig& config) {
  Model model = made(config);
  for (const auto& p : model.transformer().parameters().all()) {
    const Parameter* q = from.transformer().parameters().find(p->name);
    if (q) std::memcpy(p->value.f32(), q->value.f32(), p->value.bytes());
  }
  return model;
}

inline Tensor weight(const Model& model, const std::string& name) {
  return model.transformer().parameters().find(name)->value;
}

// The model with one parameter changed.
template <class Change>
Model with(const Model& from, const std::string& name, const Change& change) {
  Model model = like(from, from.config());
  change(weight(model, name));
  return model;
}

inline void put(const Tensor& to, const Tensor& values) {
  std::memcpy(to.f32(), values.f32(), to.bytes());
}

// Blocks of `rows` rows moved on by one block.
inline void turn_blocks(const Tensor& w, int64_t first, int64_t rows, int64_t blocks) {
  float* begin = w.f32() + first * w.width();
  std::rotate(begin, begin + rows * w.width(), begin + rows * blocks * w.width());
}

inline void record(const Model& model, const std::string& path, const CompareInput& input = kInput) {
  std::vector<SavedTensor> tensors;
  const Observed observed = observe_pass(model.transformer(), {input.ids, input.decoder_ids});
  for (const Kept& k : observed.all()) tensors.push_back({k.name(), k.value});
  tensors.push_back(
      {"input_ids", Tensor::of<int32_t>({1, static_cast<int64_t>(input.ids.size())}, input.ids), DType::i32});
  write_safetensors(path, tensors);
}

}  // namespace plumb::compare_test
