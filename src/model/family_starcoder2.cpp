// StarCoder2 (Lozhkov et al. 2024, 2402.19173): pre-norm with LayerNorm, rotary positions, grouped keys and
// values, a window, biases everywhere.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{
    .norm_eps = "norm_epsilon", .dropout = "residual_dropout", .embedding_dropout = "embedding_dropout"};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "starcoder2",
                                   .vocab_size = 49152,
                                   .width = 3072,
                                   .layers = 30,
                                   .heads = 24,
                                   .kv_heads = 2,
                                   .ffn_width = 12288,
                                   .max_length = 4096,
                                   .norm = NormKind::layer_norm,
                                   .norm_eps = 1e-5,
                                   .activation = "gelu_pytorch_tanh",
                                   .gated = false,
                                   .tied = true,
                                   .init_std = 0.018042,
                                   .bos_id = 50256,
                                   .eos_id = 50256,
                                   .keys = kKeys});
  LayerConfig& l = c.layer;
  l.window = f.integer("sliding_window", 0);
  l.attention_bias = l.attention_output_bias = l.ffn_bias = f.flag("use_bias", true);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  write_decoder(c, l, j, kKeys);
  write_window(l.window, j);
  j["use_bias"] = l.ffn_bias;
}

constexpr TensorName kNames[] = {
    {"token_embedding", "model.embed_tokens"},
    {"decoder.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"decoder.#.attention.query", "model.layers.#.self_attn.q_proj"},
    {"decoder.#.attention.key", "model.layers.#.self_attn.k_proj"},
    {"decoder.#.attention.value", "model.layers.#.self_attn.v_proj"},
    {"decoder.#.attention.output", "model.layers.#.self_attn.o_proj"},
    {"decoder.#.feed_forward.norm_in", "model.layers.#.post_attention_layernorm"},
    {"decoder.#.feed_forward.up", "model.layers.#.mlp.c_fc"},
    {"decoder.#.feed_forward.down", "model.layers.#.mlp.c_proj"},
    {"decoder.final_norm", "model.norm"},
    {"head", "lm_head"},
};

}  // namespace

const Family kStarCoder2{.type = "starcoder2",
                         .architecture = "Starcoder2ForCausalLM",
                         .read = read,
                         .write = write,
                         .prefix = "model.",
                         .names = kNames,
                         .copies = kLlamaCopies,
                         .ignored = kLlamaIgnored};

}  // namespace plumb
