// Small models with weights that hide nothing: large enough for logits of order 1, gains and biases that are
// not all alike. For the tests of this folder.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "model/transformer.h"

namespace plumb::test {

inline void fill_weights(ParameterTable& table, uint64_t seed) {
  uint64_t stream = 0;
  for (const auto& p : table.all()) {
    ++stream;
    if (!p->value.defined()) p->value = Tensor::empty(p->shape);
    const bool matrix = p->shape.rank() == 2;
    const double size = p->role == Role::embedding ? 1.0
                        : matrix                   ? 1.5 / std::sqrt(p->shape[p->in_out ? 0 : 1])
                                                   : 0.3;
    const double middle = p->role == Role::gain || p->role == Role::gate ? 1 : 0;
    for (int64_t i = 0; i < p->value.numel(); ++i) {
      p->value.f32()[i] = static_cast<float>(middle + size * random_normal({seed, stream}, i));
    }
  }
}

inline std::unique_ptr<Transformer> make_model(const ModelConfig& config, uint64_t seed = 1) {
  auto model = std::make_unique<Transformer>(config);
  fill_weights(model->parameters(), seed);
  return model;
}

inline ModelConfig small_decoder() {
  ModelConfig c;
  c.vocab_size = 61;
  c.width = 24;
  c.max_length = 40;
  c.decoder_layers = 2;
  c.layer.heads = 4;
  return c;
}

struct Variant {
  std::string name;
  ModelConfig config;
};

// Decoders, and encoder-decoders, of every kind of positions and attention.
inline std::vector<Variant> variants() {
  std::vector<Variant> all;
  const auto add = [&](const std::string& name, const std::function<void(ModelConfig&)>& change) {
    all.push_back({name, small_decoder()});
    change(all.back().config);
  };
  add("RotaryHalf", [](ModelConfig&) {});
  add("RotaryInterleaved", [](ModelConfig& c) { c.layer.rope.interleaved = true; });
  add("RotaryPart", [](ModelConfig& c) { c.layer.head_dim = 16, c.layer.rope.fraction = 0.25; });
  add("Grouped", [](ModelConfig& c) { c.layer.kv_heads = 2; });
  add("OneKeyHead", [](ModelConfig& c) { c.layer.kv_heads = 1, c.layer.head_dim = 10; });
  add("Window", [](ModelConfig& c) { c.layer.window = 4; });
  add("WindowOfOne", [](ModelConfig& c) { c.layer.window = 1; });
  add("WindowInSomeLayers", [](ModelConfig& c) {
    LayerConfig full = c.layer;
    c.layer.window = 3;
    full.rotary = false;
    c.decoder_runs = {{1, 1, full}};
  });
  add("GateUpFused", [](ModelConfig& c) { c.layer.gate_up_fused = c.layer.ffn_bias = true; });
  add("Alibi", [](ModelConfig& c) { c.positions = Positions::alibi, c.layer.heads = 6; });
  add("AlibiWindow", [](ModelConfig& c) { c.positions = Positions::alibi, c.layer.window = 5; });
  add("LearnedWithOffset", [](ModelConfig& c) {
    c.positions = Positions::learned, c.position_offset = 2, c.embedding_width = 10;
  });
  add("NoPositions", [](ModelConfig& c) { c.positions = Positions::none; });
  add("Sinusoidal", [](ModelConfig& c) { c.positions = Positions::sinusoidal; });
  add("Gpt2", [](ModelConfig& c) {
    c.positions = Positions::learned;
    c.linear_in_out = true;
    c.layer.norm = NormKind::layer_norm;
    c.layer.norm_bias = c.layer.qkv_fused = c.layer.attention_bias = c.layer.attention_output_bias =
        c.layer.ffn_bias = true;
    c.layer.gated = false;
    c.layer.activation = Activation::gelu_tanh;
  });
  add("PostNormUntied",
      [](ModelConfig& c) { c.layer.placement = Placement::post_norm, c.tied_embeddings = false; });
  add("Ngpt", [](ModelConfig& c) { c.layer.placement = Placement::ngpt, c.layer.kv_heads = 2; });
  add("SigmaReparam", [](ModelConfig& c) { c.layer.reparam = Reparam::sigma; });
  add("Parallel", [](ModelConfig& c) { c.layer.parallel = Parallel::one_norm; });
  add("QueryKeyNorm", [](ModelConfig& c) { c.layer.qk_norm = QkNorm::per_head; });
  add("QueryKeyNormWholeFused",
      [](ModelConfig& c) { c.layer.qk_norm = QkNorm::whole, c.layer.qkv_fused = true; });
  add("QueryKeyNormLateOwnGains", [](ModelConfig& c) {
    c.layer.qk_norm = QkNorm::own_gains;
    c.layer.qk_norm_late = true;
  });
  add("CapsSinksLimits", [](ModelConfig& c) {
    c.layer.attention_softcap = 2;
    c.layer.attention_sinks = true;
    c.layer.qkv_limit = 1;
    c.logits_scale = 0.7;
    c.logits_softcap = 3;
  });
  add("Yarn", [](ModelConfig& c) {
    c.layer.rope = {.base = 100,
                    .scaling = RopeScaling::yarn,
                    .factor = 4,
                    .original_length = 10,
                    .beta_fast = 2,
                    .beta_slow = 0.2,
                    .mscale = 1,
                    .mscale_all = 0.8,
                    .query_growth = 0.3};
  });
  add("Experts", [](ModelConfig& c) { c.layer.experts = 4, c.layer.shared_experts = 1; });
  add("LatentAttention", [](ModelConfig& c) {
    c.layer.head_dim = 9;
    c.layer.kv_rank = 10;
    c.layer.q_rank = 7;
    c.layer.rope_dim = 6;
    c.layer.value_dim = 5;
  });
  add("ExpertsInGroups", [](ModelConfig& c) {
    c.layer.experts = 6;
    c.layer.router = Router::sigmoid;
    c.layer.router_correction = c.layer.shared_gate = true;
    c.layer.router_groups = 3;
    c.layer.router_top_groups = 2;
    c.layer.router_group_by = RouterGroup::best_two;
    c.layer.shared_experts = 1;
    c.layer.shared_width = 11;
  });
  add("HyperConnections", [](ModelConfig& c) { c.layer.placement = Placement::hyper_connections; });
  add("ManifoldHyperConnections",
      [](ModelConfig& c) { c.layer.placement = Placement::mhc, c.layer.streams = 3; });
  add("EncoderDecoder", [](ModelConfig& c) {
    c.encoder_layers = 2;
    c.positions = Positions::sinusoidal;
    c.sinusoidal_split = true;
    c.layer.placement = Placement::post_norm;
    c.layer.norm = NormKind::layer_norm;
    c.layer.norm_bias = c.layer.attention_bias = true;
    c.logits_bias = true;
    c.decoder_start_id = 3;
  });
  add("EncoderDecoderRotary",
      [](ModelConfig& c) { c.encoder_layers = 1, c.layer.kv_heads = 2, c.decoder_start_id = 3; });
  return all;
}

// `count` ids below `vocabulary`.
inline std::vector<int32_t> some_ids(size_t count, uint64_t seed, int32_t vocabulary = 61) {
  std::vector<int32_t> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>(random_below({seed, 9}, i, vocabulary));
  return ids;
}

}  // namespace plumb::test
