// OLMoE (Muennighoff et al. 2024, 2409.02060): experts in every layer, norms over all heads of queries and
// keys.

#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "olmoe",
                                   .vocab_size = 50304,
                                   .width = 2048,
                                   .layers = 16,
                                   .heads = 16,
                                   .ffn_width = 2048,
                                   .max_length = 4096,
                                   .norm_eps = 1e-5,
                                   .eos_id = 50279,
                                   .pad_id = 1});
  LayerConfig& l = c.layer;
  l.attention_bias = l.attention_output_bias = f.flag("attention_bias", false);
  l.qk_norm = QkNorm::whole;
  l.qkv_limit = f.number("clip_qkv", 0);
  l.experts = f.integer("num_experts", f.integer("num_local_experts", 64));
  l.experts_per_token = f.integer("num_experts_per_tok", 8);
  l.router_normalize = f.flag("norm_topk_prob", false);
  read_balance(f, c, 0.01);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  write_decoder(c, l, j);
  j["attention_bias"] = l.attention_bias;
  j["clip_qkv"] = nullptr;
  if (l.qkv_limit > 0) j["clip_qkv"] = l.qkv_limit;
  j["num_experts"] = l.experts;
  j["num_experts_per_tok"] = l.experts_per_token;
  j["norm_topk_prob"] = l.router_normalize;
  write_balance(c, j, 0.01);
}

constexpr TensorName kNames[] = {
    {"token_embedding", "model.embed_tokens"},
    {"decoder.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"decoder.#.attention.query", "model.layers.#.self_attn.q_proj"},
    {"decoder.#.attention.key", "model.layers.#.self_attn.k_proj"},
    {"decoder.#.attention.value", "model.layers.#.self_attn.v_proj"},
    {"decoder.#.attention.query_norm", "model.layers.#.self_attn.q_norm"},
    {"decoder.#.attention.key_norm", "model.layers.#.self_attn.k_norm"},
    {"decoder.#.attention.output", "model.layers.#.self_attn.o_proj"},
    {"decoder.#.feed_forward.norm_in", "model.layers.#.post_attention_layernorm"},
    {"decoder.#.feed_forward.router", "model.layers.#.mlp.gate"},
    {"decoder.#.feed_forward.experts.*.gate", "model.layers.#.mlp.experts.*.gate_proj"},
    {"decoder.#.feed_forward.experts.*.up", "model.layers.#.mlp.experts.*.up_proj"},
    {"decoder.#.feed_forward.experts.*.down", "model.layers.#.mlp.experts.*.down_proj"},
    {"decoder.final_norm", "model.norm"},
    {"head", "lm_head"},
};

}  // namespace

const Family kOlmoe{.type = "olmoe",
                    .architecture = "OlmoeForCausalLM",
                    .read = read,
                    .write = write,
                    .prefix = "model.",
                    .names = kNames,
                    .copies = kLlamaCopies,
                    .ignored = kLlamaIgnored};

}  // namespace plumb
