// Qwen's mixtures: Qwen1.5-MoE and Qwen2-MoE (Yang et al. 2024, 2407.10671), with a gated shared expert, and
// Qwen3-MoE (Yang et al. 2025, 2505.09388), with norms on queries and keys. Some layers may be dense.
#include <fmt/format.h>

#include <algorithm>

#include "model/decoder_fields.h"
#include "model/llama_names.h"
#include "plumb/error.h"

namespace plumb {
namespace {

// Every decoder_sparse_step-th layer has experts, unless mlp_only_layers names it.
std::vector<bool> read_sparse(const JsonFields& f, const ModelConfig& c, int64_t experts) {
  const int64_t step = f.integer("decoder_sparse_step", 1);
  if (step < 1) f.wrong("decoder_sparse_step", "at least 1");
  const std::vector<int64_t> dense = f.ids("mlp_only_layers", {});
  std::vector<bool> sparse(c.decoder_layers);
  for (int64_t i = 0; i < c.decoder_layers; ++i)
    sparse[i] = experts > 0 && (i + 1) % step == 0 && std::ranges::count(dense, i) == 0;
  return sparse;
}

// The layers, of which `c.layer` is a sparse one.
void set_qwen_layers(const JsonFields& f, ModelConfig& c, int64_t dense_width,
                     const std::vector<bool>& sliding) {
  const std::vector<bool> sparse = read_sparse(f, c, c.layer.experts);
  LayerConfig dense = c.layer;
  dense.experts = dense.shared_experts = dense.shared_width = 0;
  dense.shared_gate = false;
  dense.ffn_width = dense_width;
  const int64_t window = f.integer("sliding_window", 4096);
  std::vector<LayerConfig> layers;
  layers.reserve(c.decoder_layers);
  for (int64_t i = 0; i < c.decoder_layers; ++i) {
    layers.push_back(sparse[i] ? c.layer : dense);
    layers.back().window = sliding[i] ? window : 0;
  }
  set_layers(c, layers);
}

// A sparse layer where there is one, and a dense one's width.
struct Written {
  LayerConfig layer;
  int64_t dense_width = 0;
};

Written write_qwen(const ModelConfig& c, JsonObject j) {
  Written w{.layer = resolved_layer(c, Side::decoder, 0)};
  std::vector<int64_t> dense;
  for (int64_t i = 0; i < c.decoder_layers; ++i) {
    const LayerConfig l = resolved_layer(c, Side::decoder, i);
    if (l.experts > 0) {
      w.layer = l;
    } else {
      dense.push_back(i);
      w.dense_width = l.ffn_width;
    }
  }
  write_decoder(c, w.layer, j);
  j["intermediate_size"] = w.dense_width > 0 ? w.dense_width : w.layer.ffn_width;
  j["moe_intermediate_size"] = w.layer.ffn_width;
  j["num_experts"] = w.layer.experts;
  j["num_experts_per_tok"] = w.layer.experts_per_token;
  j["norm_topk_prob"] = w.layer.router_normalize;
  j["decoder_sparse_step"] = 1;
  j["mlp_only_layers"] = dense;
  int64_t window = 0;
  for (int64_t i = 0; i < c.decoder_layers; ++i)
    window = std::max(window, layer_config(c, Side::decoder, i).window);
  j["use_sliding_window"] = window > 0;
  j["sliding_window"] = nullptr;
  if (window > 0) j["sliding_window"] = window;
  write_balance(c, j, 0.001);
  return w;
}

ModelConfig read_2(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "qwen2_moe",
                                   .vocab_size = 151936,
                                   .width = 2048,
                                   .layers = 24,
                                   .heads = 16,
                                   .kv_heads = 16,
                                   .ffn_width = 5632,
                                   .max_length = 32768});
  LayerConfig& l = c.layer;
  const int64_t dense_width = l.ffn_width;
  l.attention_bias = f.flag("qkv_bias", true);
  l.ffn_width = f.integer("moe_intermediate_size", 1408);
  l.experts = f.integer("num_experts", 60);
  l.experts_per_token = f.integer("num_experts_per_tok", 4);
  l.router_normalize = f.flag("norm_topk_prob", false);
  l.shared_experts = 1;
  l.shared_width = f.integer("shared_expert_intermediate_size", 5632);
  l.shared_gate = true;
  const bool slides = f.flag("use_sliding_window", false);
  const int64_t below = f.integer("max_window_layers", 28);
  std::vector<bool> sliding = read_sliding(f, c.decoder_layers, [](int64_t i) { return i % 2 == 0; });
  if (!f.has("layer_types")) {
    for (int64_t i = 0; i < c.decoder_layers; ++i) sliding[i] = sliding[i] && slides && i < below;
  } else if (!slides && std::ranges::count(sliding, true) > 0) {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("{}: layer_types names sliding layers, and use_sliding_window is false", f.name()));
  }
  set_qwen_layers(f, c, dense_width, sliding);
  read_balance(f, c, 0.001);
  return c;
}

void write_2(const ModelConfig& c, JsonObject j) {
  const Written w = write_qwen(c, j);
  j["qkv_bias"] = w.layer.attention_bias;
  j["shared_expert_intermediate_size"] = w.layer.shared_width;
  write_sliding(c, j);
}

ModelConfig read_3(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "qwen3_moe",
                                   .vocab_size = 151936,
                                   .width = 2048,
                                   .layers = 24,
                                   .heads = 32,
                                   .kv_heads = 4,
                                   .ffn_width = 6144,
                                   .max_length = 32768});
  LayerConfig& l = c.layer;
  const int64_t dense_width = l.ffn_width;
  l.attention_bias = l.attention_output_bias = f.flag("attention_bias", false);
  l.qk_norm = QkNorm::per_head;
  l.ffn_width = f.integer("moe_intermediate_size", 768);
  l.experts = f.integer("num_local_experts", f.integer("num_experts", 128));
  l.experts_per_token = f.integer("num_experts_per_tok", 8);
  l.router_normalize = f.flag("norm_topk_prob", false);
  const bool slides = f.flag("use_sliding_window", false) && !f.says_none("sliding_window");
  set_qwen_layers(f, c, dense_width, std::vector<bool>(c.decoder_layers, slides));
  read_balance(f, c, 0.001);
  return c;
}

void write_3(const ModelConfig& c, JsonObject j) {
  const Written w = write_qwen(c, j);
  j["attention_bias"] = w.layer.attention_bias;
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
    {"decoder.#.feed_forward.gate", "model.layers.#.mlp.gate_proj"},
    {"decoder.#.feed_forward.up", "model.layers.#.mlp.up_proj"},
    {"decoder.#.feed_forward.down", "model.layers.#.mlp.down_proj"},
    {"decoder.#.feed_forward.router", "model.layers.#.mlp.gate"},
    {"decoder.#.feed_forward.experts.*.gate", "model.layers.#.mlp.experts.*.gate_proj"},
    {"decoder.#.feed_forward.experts.*.up", "model.layers.#.mlp.experts.*.up_proj"},
    {"decoder.#.feed_forward.experts.*.down", "model.layers.#.mlp.experts.*.down_proj"},
    {"decoder.#.feed_forward.shared.*.gate", "model.layers.#.mlp.shared_expert.gate_proj"},
    {"decoder.#.feed_forward.shared.*.up", "model.layers.#.mlp.shared_expert.up_proj"},
    {"decoder.#.feed_forward.shared.*.down", "model.layers.#.mlp.shared_expert.down_proj"},
    {"decoder.#.feed_forward.shared_gate", "model.layers.#.mlp.shared_expert_gate"},
    {"decoder.final_norm", "model.norm"},
    {"head", "lm_head"},
};

}  // namespace

const Family kQwen2Moe{.type = "qwen2_moe",
                       .architecture = "Qwen2MoeForCausalLM",
                       .read = read_2,
                       .write = write_2,
                       .prefix = "model.",
                       .names = kNames,
                       .copies = kLlamaCopies,
                       .ignored = kLlamaIgnored};

const Family kQwen3Moe{.type = "qwen3_moe",
                       .architecture = "Qwen3MoeForCausalLM",
                       .read = read_3,
                       .write = write_3,
                       .prefix = "model.",
                       .names = kNames,
                       .copies = kLlamaCopies,
                       .ignored = kLlamaIgnored};

}  // namespace plumb
