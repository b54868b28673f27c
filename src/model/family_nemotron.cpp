// Nemotron (Parmar et al. 2024, 2402.16819): pre-norm with LayerNorms whose gain is 1 + w, squared ReLU,
// rotary positions on half of each head.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.norm_eps = "norm_eps",
                            .attention_bias = "attention_bias",
                            .output_bias = "attention_bias",
                            .ffn_bias = "mlp_bias",
                            .rope = RopeKeys::part};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "nemotron",
                                   .vocab_size = 256000,
                                   .width = 6144,
                                   .layers = 32,
                                   .heads = 48,
                                   .ffn_width = 24576,
                                   .max_length = 4096,
                                   .norm = NormKind::layer_norm,
                                   .norm_eps = 1e-5,
                                   .activation = "relu2",
                                   .gated = false,
                                   .init_std = 0.0134,
                                   .rope = {.fraction = 0.5},
                                   .bos_id = 2,
                                   .eos_id = 3,
                                   .keys = kKeys});
  c.layer.norm_unit_offset = true;
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j, kKeys);
}

constexpr TensorName kNames[] = {
    {"token_embedding", "model.embed_tokens"},
    {"decoder.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"decoder.#.attention.query", "model.layers.#.self_attn.q_proj"},
    {"decoder.#.attention.key", "model.layers.#.self_attn.k_proj"},
    {"decoder.#.attention.value", "model.layers.#.self_attn.v_proj"},
    {"decoder.#.attention.output", "model.layers.#.self_attn.o_proj"},
    {"decoder.#.feed_forward.norm_in", "model.layers.#.post_attention_layernorm"},
    {"decoder.#.feed_forward.up", "model.layers.#.mlp.up_proj"},
    {"decoder.#.feed_forward.down", "model.layers.#.mlp.down_proj"},
    {"decoder.final_norm", "model.norm"},
    {"head", "lm_head"},
};

}  // namespace

const Family kNemotron{.type = "nemotron",
                       .architecture = "NemotronForCausalLM",
                       .read = read,
                       .write = write,
                       .prefix = "model.",
                       .names = kNames,
                       .copies = kLlamaCopies,
                       .ignored = kLlamaIgnored};

}  // namespace plumb
