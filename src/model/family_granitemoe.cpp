// Granite 3's mixtures (IBM 2024): experts in every layer, stored in one tensor, and constant factors on
// embeddings, attention, branches and logits.
#include "model/decoder_fields.h"
#include "model/llama_names.h"
#include "nn/rotary.h"

namespace plumb {
namespace {

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "granitemoe", .bos_id = 1, .eos_id = 2});
  c.embedding_scale = f.number("embedding_multiplier", 1);
  c.logits_scale = 1 / f.number("logits_scaling", 1);
  LayerConfig& l = c.layer;
  l.attention_bias = l.attention_output_bias = f.flag("attention_bias", false);
  l.attention_scale = f.number("attention_multiplier", 1);
  l.gate_value = f.number("residual_multiplier", 1);
  l.gate_up_fused = true;
  l.experts = f.integer("num_local_experts", 8);
  l.experts_per_token = f.integer("num_experts_per_tok", 2);
  read_balance(f, c, 0.001);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  write_decoder(c, l, j);
  j["attention_bias"] = l.attention_bias;
  j["embedding_multiplier"] = c.embedding_scale;
  j["logits_scaling"] = inverse(c.logits_scale);
  j["attention_multiplier"] = attention_scale(l, false);
  j["residual_multiplier"] = sublayer_formula(c, Side::decoder, 0).gate_value;
  j["num_local_experts"] = l.experts;
  j["num_experts_per_tok"] = l.experts_per_token;
  write_balance(c, j, 0.001);
}

constexpr TensorName kNames[] = {
    {"token_embedding", "model.embed_tokens"},
    {"decoder.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"decoder.#.attention.query", "model.layers.#.self_attn.q_proj"},
    {"decoder.#.attention.key", "model.layers.#.self_attn.k_proj"},
    {"decoder.#.attention.value", "model.layers.#.self_attn.v_proj"},
    {"decoder.#.attention.output", "model.layers.#.self_attn.o_proj"},
    {"decoder.#.feed_forward.norm_in", "model.layers.#.post_attention_layernorm"},
    {"decoder.#.feed_forward.router", "model.layers.#.block_sparse_moe.router.layer"},
    {"decoder.#.feed_forward.experts.*.gate_up",
     "model.layers.#.block_sparse_moe.input_linear",
     {.stacked = true}},
    {"decoder.#.feed_forward.experts.*.down",
     "model.layers.#.block_sparse_moe.output_linear",
     {.stacked = true}},
    {"decoder.final_norm", "model.norm"},
    {"head", "lm_head"},
};

}  // namespace

const Family kGraniteMoe{.type = "granitemoe",
                         .architecture = "GraniteMoeForCausalLM",
                         .read = read,
                         .write = write,
                         .prefix = "model.",
                         .names = kNames,
                         .copies = kLlamaCopies,
                         .ignored = kLlamaIgnored};

}  // namespace plumb
