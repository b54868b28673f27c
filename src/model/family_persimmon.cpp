// Persimmon (Adept 2023): pre-norm with LayerNorm, squared ReLU, norms on queries and keys, rotary positions
// on half of each head.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.kv_heads = nullptr,
                            .head_dim = nullptr,
                            .norm_eps = "layer_norm_eps",
                            .dropout = "hidden_dropout",
                            .rope = RopeKeys::part};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "persimmon",
                                   .vocab_size = 262144,
                                   .width = 4096,
                                   .layers = 36,
                                   .heads = 64,
                                   .ffn_width = 16384,
                                   .max_length = 16384,
                                   .norm = NormKind::layer_norm,
                                   .norm_eps = 1e-5,
                                   .activation = "relu2",
                                   .gated = false,
                                   .rope = {.fraction = 0.5},
                                   .bos_id = 1,
                                   .eos_id = 2,
                                   .keys = kKeys});
  LayerConfig& l = c.layer;
  l.qkv_fused = l.attention_bias = l.attention_output_bias = l.ffn_bias = true;
  if (f.flag("qk_layernorm", true)) l.qk_norm = QkNorm::per_head;
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  write_decoder(c, l, j, kKeys);
  j["qk_layernorm"] = l.qk_norm == QkNorm::per_head;
}

constexpr TensorName kNames[] = {
    {"token_embedding", "model.embed_tokens"},
    {"decoder.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"decoder.#.attention.qkv", "model.layers.#.self_attn.query_key_value", {.by_group = true}},
    {"decoder.#.attention.query_norm", "model.layers.#.self_attn.q_layernorm"},
    {"decoder.#.attention.key_norm", "model.layers.#.self_attn.k_layernorm"},
    {"decoder.#.attention.output", "model.layers.#.self_attn.dense"},
    {"decoder.#.feed_forward.norm_in", "model.layers.#.post_attention_layernorm"},
    {"decoder.#.feed_forward.up", "model.layers.#.mlp.dense_h_to_4h"},
    {"decoder.#.feed_forward.down", "model.layers.#.mlp.dense_4h_to_h"},
    {"decoder.final_norm", "model.final_layernorm"},
    {"head", "lm_head"},
};

}  // namespace

const Family kPersimmon{.type = "persimmon",
                        .architecture = "PersimmonForCausalLM",
                        .read = read,
                        .write = write,
                        .prefix = "model.",
                        .names = kNames,
                        .copies = kLlamaCopies,
                        .ignored = kLlamaIgnored};

}  // namespace plumb
