// Families whose block is LLaMA's (Touvron 2023, 2302.13971) but for what a few numbers, keys and names say:
// one reader and one writer of config.json, and one table of tensor names for most.
#pragma once

#include <functional>
#include <vector>

#include "model/decoder_fields.h"

namespace plumb {

// What a family has where its config.json is silent, and the keys that it reads. A null key: the value
// stands.
struct LlamaKin {
  std::string_view type;
  int64_t vocab_size = 32000, width = 4096, ffn_width = 11008, layers = 32, heads = 32;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;  // 0: width / heads
  int64_t max_length = 2048;
  const char *activation_key = "hidden_act", *activation = "silu";
  const char* eps_key = "rms_norm_eps";
  double eps = 1e-6;
  bool tied = false;
  int64_t bos = 1, eos = 2, pad = -1;
  const char *attention_bias_key = nullptr, *output_bias_key = nullptr, *ffn_bias_key = nullptr;
  bool attention_bias = false;
  double rope_base = 10000;
  double rope_fraction = 0;    // of a head that is rotated, if the family reads partial_rotary_factor; else 0
  bool rope_by_layer = false;  // the family itself reads and writes what rotary positions turn by
};

ModelConfig read_llama_kin(const JsonFields& f, const LlamaKin& kin);
void write_llama_kin(const ModelConfig& c, const LlamaKin& kin, JsonObject j);

// rope_parameters of today, or rope_theta and rope_scaling of before. `fraction` as in LlamaKin.
RopeConfig read_rope(const JsonFields& f, double base, double fraction = 0);
JsonFields rope_fields(const JsonFields& f);  // the object
// One such object: the base of `f` or, where it has none, `base`.
RopeConfig read_rope_object(const JsonFields& f, const JsonFields& rope, double base);
// Both spellings, since older engines read the first; `r` is resolved. `fraction`: whether that is said.
void write_rope(const RopeConfig& r, JsonObject j, bool fraction);
void write_rope_object(const RopeConfig& r, JsonObject o);

// Gives those layers the window, an error that names the key sliding_window if it is 0; then `change` to
// each.
void read_windows(const JsonFields& f, const std::vector<bool>& sliding, int64_t window, ModelConfig& c,
                  const std::function<void(LayerConfig&, bool)>& change = {});
// sliding_window and layer_types, by each layer's window; returns it, 0 where no layer has one.
int64_t write_windows(const ModelConfig& c, JsonObject j);

// The y whose 1 / y is x to the bit, where there is one.
double inverse(double x);

inline constexpr TensorName kLlamaNames[] = {
    {"token_embedding", "model.embed_tokens"},
    {"decoder.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"decoder.#.attention.norm_branch", "model.layers.#.post_attention_layernorm"},
    {"decoder.#.attention.query", "model.layers.#.self_attn.q_proj"},
    {"decoder.#.attention.key", "model.layers.#.self_attn.k_proj"},
    {"decoder.#.attention.value", "model.layers.#.self_attn.v_proj"},
    {"decoder.#.attention.qkv", "model.layers.#.self_attn.qkv_proj"},
    {"decoder.#.attention.query_norm", "model.layers.#.self_attn.q_norm"},
    {"decoder.#.attention.key_norm", "model.layers.#.self_attn.k_norm"},
    {"decoder.#.attention.output", "model.layers.#.self_attn.o_proj"},
    {"decoder.#.feed_forward.norm_in", "model.layers.#.post_attention_layernorm"},
    {"decoder.#.feed_forward.norm_branch", "model.layers.#.post_feedforward_layernorm"},
    {"decoder.#.feed_forward.gate", "model.layers.#.mlp.gate_proj"},
    {"decoder.#.feed_forward.up", "model.layers.#.mlp.up_proj"},
    {"decoder.#.feed_forward.gate_up", "model.layers.#.mlp.gate_up_proj"},
    {"decoder.#.feed_forward.down", "model.layers.#.mlp.down_proj"},
    {"decoder.final_norm", "model.norm"},
    {"head", "lm_head"},
};
inline constexpr TensorName kLlamaCopies[] = {{"token_embedding.weight", "lm_head.weight"}};
inline constexpr std::string_view kLlamaIgnored[] = {"layers.#.self_attn.rotary_emb.inv_freq"};

}  // namespace plumb
