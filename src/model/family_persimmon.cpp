// Persimmon (Adept 2023): pre-norm with LayerNorm, squared ReLU, norms on queries and keys, rotary positions
// on half of each head.
#include "model/families.h"
#include "model/family_parts.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.type = "persimmon",
                            .vocab_size = 262144,
                            .width = {"hidden_size", 4096},
                            .length = {"max_position_embeddings", 16384},
                            .layers = {"num_hidden_layers", 36},
                            .heads = {"num_attention_heads", 64},
                            .ffn = {"intermediate_size", 16384},
                            .activation = {"hidden_act", "relu2"},
                            .dropout = {"hidden_dropout", 0},
                            .tied = false,
                            .padding_row = true,
                            .bos = 1,
                            .eos = 2};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, kKeys);
  LayerConfig& l = c.layer;
  l.rope = read_part_rope(f, 0.5);
  l.qkv_fused = l.attention_bias = l.attention_output_bias = l.ffn_bias = true;
  if (f.flag("qk_layernorm", true)) l.qk_norm = QkNorm::per_head;
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  write_decoder(c, kKeys, j);
  write_part_rope(l.rope, j);
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
constexpr TensorName kCopies[] = {{"token_embedding.weight", "lm_head.weight"}};
constexpr std::string_view kIgnored[] = {"layers.#.self_attn.rotary_emb.inv_freq"};

}  // namespace

const Family kPersimmon{.type = "persimmon",
                        .architecture = "PersimmonForCausalLM",
                        .read = read,
                        .write = write,
                        .prefix = "model.",
                        .names = kNames,
                        .copies = kCopies,
                        .ignored = kIgnored};

}  // namespace plumb
