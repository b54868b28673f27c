// Mixtral (Jiang et al. 2024, 2401.04088): Mistral's decoder with experts in every layer.

#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "mixtral",
                                   .kv_heads = 8,
                                   .ffn_width = 14336,
                                   .max_length = 131072,
                                   .norm_eps = 1e-5,
                                   .rope = {.base = 1e6},
                                   .bos_id = 1,
                                   .eos_id = 2});
  c.layer.window = f.integer("sliding_window", 0);
  c.layer.experts = f.integer("num_local_experts", f.integer("num_experts", 8));
  c.layer.experts_per_token = f.integer("num_experts_per_tok", 2);
  read_balance(f, c, 0.001);
  warn_unless_zero(f, "router_jitter_noise");
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  write_decoder(c, l, j);
  write_window(l.window, j);
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
    {"decoder.#.feed_forward.router", "model.layers.#.block_sparse_moe.gate"},
    {"decoder.#.feed_forward.experts.*.gate", "model.layers.#.block_sparse_moe.experts.*.w1"},
    {"decoder.#.feed_forward.experts.*.up", "model.layers.#.block_sparse_moe.experts.*.w3"},
    {"decoder.#.feed_forward.experts.*.down", "model.layers.#.block_sparse_moe.experts.*.w2"},
    {"decoder.final_norm", "model.norm"},
    {"head", "lm_head"},
};

}  // namespace

const Family kMixtral{.type = "mixtral",
                      .architecture = "MixtralForCausalLM",
                      .read = read,
                      .write = write,
                      .prefix = "model.",
                      .names = kNames,
                      .copies = kLlamaCopies,
                      .ignored = kLlamaIgnored};

}  // namespace plumb
