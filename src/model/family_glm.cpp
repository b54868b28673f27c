// GLM-4 (2406.12793) as published in 2024, and GLM-4-0414, which has norms behind its branches too: half of
// each head is rotated, by neighbours.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.attention_bias = "attention_bias", .rope = RopeKeys::part};

ModelConfig read_kin(const JsonFields& f, std::string_view type) {
  ModelConfig c = read_decoder(f, {.type = type,
                                   .vocab_size = 151552,
                                   .layers = 40,
                                   .kv_heads = 2,
                                   .head_dim = 128,
                                   .ffn_width = 13696,
                                   .max_length = 131072,
                                   .norm_eps = 1.5625e-7,
                                   .attention_bias = true,
                                   .rope = {.fraction = 0.5, .interleaved = true},
                                   .pad_id = 151329,
                                   .keys = kKeys});
  c.layer.gate_up_fused = true;
  if (f.has("eos_token_id")) return c;
  for (const int64_t eos : {151329, 151336, 151338}) {
    if (eos < c.vocab_size) c.eos_ids.push_back(eos);
  }
  return c;
}

ModelConfig read(const JsonFields& f) {
  return read_kin(f, "glm");
}

ModelConfig read_4(const JsonFields& f) {
  ModelConfig c = read_kin(f, "glm4");
  c.layer.placement = Placement::sandwich;
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j, kKeys);
}

constexpr TensorName kNames[] = {
    {"token_embedding", "model.embed_tokens"},
    {"decoder.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"decoder.#.attention.norm_branch", "model.layers.#.post_self_attn_layernorm"},
    {"decoder.#.attention.query", "model.layers.#.self_attn.q_proj"},
    {"decoder.#.attention.key", "model.layers.#.self_attn.k_proj"},
    {"decoder.#.attention.value", "model.layers.#.self_attn.v_proj"},
    {"decoder.#.attention.output", "model.layers.#.self_attn.o_proj"},
    {"decoder.#.feed_forward.norm_in", "model.layers.#.post_attention_layernorm"},
    {"decoder.#.feed_forward.norm_branch", "model.layers.#.post_mlp_layernorm"},
    {"decoder.#.feed_forward.gate_up", "model.layers.#.mlp.gate_up_proj"},
    {"decoder.#.feed_forward.down", "model.layers.#.mlp.down_proj"},
    {"decoder.final_norm", "model.norm"},
    {"head", "lm_head"},
};

}  // namespace

const Family kGlm{.type = "glm",
                  .architecture = "GlmForCausalLM",
                  .read = read,
                  .write = write,
                  .prefix = "model.",
                  .names = kNames,
                  .copies = kLlamaCopies,
                  .ignored = kLlamaIgnored};

const Family kGlm4{.type = "glm4",
                   .architecture = "Glm4ForCausalLM",
                   .read = read_4,
                   .write = write,
                   .prefix = "model.",
                   .names = kNames,
                   .copies = kLlamaCopies,
                   .ignored = kLlamaIgnored};

}  // namespace plumb
