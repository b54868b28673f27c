// Hunyuan (dense): LLaMA with norms on queries and keys after the rotation.
#include <cmath>
#include "model/decoder_fields.h"
#include "model/llama_names.h"
#include "model/rope_fields.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.attention_bias = "attention_bias", .output_bias = "attention_bias"};

constexpr TensorName kNames[] = {
    {"token_embedding", "model.embed_tokens"},
    {"decoder.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"decoder.#.attention.query", "model.layers.#.self_attn.q_proj"},
    {"decoder.#.attention.key", "model.layers.#.self_attn.k_proj"},
    {"decoder.#.attention.value", "model.layers.#.self_attn.v_proj"},
    {"decoder.#.attention.query_norm", "model.layers.#.self_attn.query_layernorm"},
    {"decoder.#.attention.key_norm", "model.layers.#.self_attn.key_layernorm"},
    {"decoder.#.attention.output", "model.layers.#.self_attn.o_proj"},
    {"decoder.#.feed_forward.norm_in", "model.layers.#.post_attention_layernorm"},
    {"decoder.#.feed_forward.gate", "model.layers.#.mlp.gate_proj"},
    {"decoder.#.feed_forward.up", "model.layers.#.mlp.up_proj"},
    {"decoder.#.feed_forward.down", "model.layers.#.mlp.down_proj"},
    {"decoder.final_norm", "model.norm"},
    {"head", "lm_head"},
};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "hunyuan_v1_dense",
                                   .vocab_size = 290943,
                                   .norm_eps = 1e-5,
                                   .bos_id = 1,
                                   .eos_id = 2,
                                   .pad_id = 0,
                                   .keys = kKeys});
  LayerConfig& l = c.layer;
  l.qk_norm = QkNorm::per_head;
  l.qk_norm_late = true;
  // Its own kind of "dynamic" is another base, whatever the length.
  const double alpha = rope_object(f).number("alpha", 0);
  if (l.rope.scaling == RopeScaling::dynamic && alpha != 0) {
    const auto dim = static_cast<double>(resolved_layer(c, Side::decoder, 0).head_dim);
    c.max_length = l.rope.original_length;
    l.rope = {.base = l.rope.base * std::pow(alpha, dim / (dim - 2))};
  }
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j, kKeys);
}

}  // namespace

const Family kHunyuanV1Dense{.type = "hunyuan_v1_dense",
                             .architecture = "HunYuanDenseV1ForCausalLM",
                             .read = read,
                             .write = write,
                             .prefix = "model.",
                             .names = kNames,
                             .copies = kLlamaCopies,
                             .ignored = kLlamaIgnored};

}  // namespace plumb
