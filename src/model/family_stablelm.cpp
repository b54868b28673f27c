// StableLM 2 (Bellagente et al. 2024, 2402.17834): LLaMA's block with LayerNorm, rotary positions on a part
// of each head; the 12B model side by side, with norms on queries and keys.
#include "model/families.h"
#include "model/family_parts.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.type = "stablelm",
                            .vocab_size = 50304,
                            .width = {"hidden_size", 2560},
                            .length = {"max_position_embeddings", 4096},
                            .layers = {"num_hidden_layers", 32},
                            .heads = {"num_attention_heads", 32},
                            .kv_heads = {"num_key_value_heads", 32},
                            .ffn = {"intermediate_size", 6912},
                            .activation = {"hidden_act", "silu"},
                            .dropout = {"hidden_dropout", 0},
                            .tied = false,
                            .padding_row = true,
                            .bos = 0,
                            .eos = 0};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, kKeys);
  LayerConfig& l = c.layer;
  l.rope = read_part_rope(f, 0.25);
  l.parallel = f.flag("use_parallel_residual", false) ? Parallel::one_norm : Parallel::no;
  l.gated = true;
  l.attention_bias = f.flag("use_qkv_bias", false);
  if (f.flag("qk_layernorm", false)) l.qk_norm = QkNorm::own_gains;
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  write_decoder(c, kKeys, j);
  write_part_rope(l.rope, j);
  j["use_parallel_residual"] = l.parallel == Parallel::one_norm;
  j["use_qkv_bias"] = l.attention_bias;
  j["qk_layernorm"] = l.qk_norm == QkNorm::own_gains;
}

constexpr TensorName kNames[] = {
    {"token_embedding", "model.embed_tokens"},
    {"decoder.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"decoder.#.attention.query", "model.layers.#.self_attn.q_proj"},
    {"decoder.#.attention.key", "model.layers.#.self_attn.k_proj"},
    {"decoder.#.attention.value", "model.layers.#.self_attn.v_proj"},
    {"decoder.#.attention.query_norm", "model.layers.#.self_attn.q_layernorm.norms.*", {.by_head = true}},
    {"decoder.#.attention.key_norm", "model.layers.#.self_attn.k_layernorm.norms.*", {.by_head = true}},
    {"decoder.#.attention.output", "model.layers.#.self_attn.o_proj"},
    {"decoder.#.feed_forward.norm_in", "model.layers.#.post_attention_layernorm"},
    {"decoder.#.feed_forward.gate", "model.layers.#.mlp.gate_proj"},
    {"decoder.#.feed_forward.up", "model.layers.#.mlp.up_proj"},
    {"decoder.#.feed_forward.down", "model.layers.#.mlp.down_proj"},
    {"decoder.final_norm", "model.norm"},
    {"head", "lm_head"},
};
constexpr TensorName kCopies[] = {{"token_embedding.weight", "lm_head.weight"}};
constexpr std::string_view kIgnored[] = {"layers.#.self_attn.rotary_emb.inv_freq"};

}  // namespace

const Family kStableLm{.type = "stablelm",
                       .architecture = "StableLmForCausalLM",
                       .read = read,
                       .write = write,
                       .prefix = "model.",
                       .names = kNames,
                       .copies = kCopies,
                       .ignored = kIgnored};

}  // namespace plumb
