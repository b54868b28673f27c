// StableLM 2 (Bellagente et al. 2024, 2402.17834): LLaMA's block with LayerNorm, rotary positions on a part
// of each head; the 12B model side by side, with norms on queries and keys.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.head_dim = nullptr,
                            .norm_eps = "layer_norm_eps",
                            .attention_bias = "use_qkv_bias",
                            .dropout = "hidden_dropout",
                            .rope = RopeKeys::part};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "stablelm",
                                   .vocab_size = 50304,
                                   .width = 2560,
                                   .layers = 32,
                                   .heads = 32,
                                   .kv_heads = 32,
                                   .ffn_width = 6912,
                                   .max_length = 4096,
                                   .norm = NormKind::layer_norm,
                                   .norm_eps = 1e-5,
                                   .rope = {.fraction = 0.25},
                                   .bos_id = 0,
                                   .eos_id = 0,
                                   .keys = kKeys});
  LayerConfig& l = c.layer;
  l.parallel = f.flag("use_parallel_residual", false) ? Parallel::one_norm : Parallel::no;
  if (f.flag("qk_layernorm", false)) l.qk_norm = QkNorm::own_gains;
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  write_decoder(c, l, j, kKeys);
  j["use_parallel_residual"] = l.parallel == Parallel::one_norm;
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

}  // namespace

const Family kStableLm{.type = "stablelm",
                       .architecture = "StableLmForCausalLM",
                       .read = read,
                       .write = write,
                       .prefix = "model.",
                       .names = kNames,
                       .copies = kLlamaCopies,
                       .ignored = kLlamaIgnored};

}  // namespace plumb
