// DeepSeek-V2 (2405.04434) and V3 (2412.19437): latent attention, and beyond the first layers experts beside
// shared ones, chosen from the best groups; V3 by sigmoid scores with a correction that balances them in
// place of a loss.
#include <fmt/format.h>

#include <algorithm>

#include "model/decoder_fields.h"
#include "model/llama_names.h"
#include "model/rope_fields.h"
#include "plumb/error.h"

namespace plumb {
namespace {

// Numbers that the two versions' configs default to.
struct Sizes {
  int64_t experts = 64, top_k = 6, shared = 2, width = 1407, first_sparse = 0;
};

void read_attention(const JsonFields& f, LayerConfig& l) {
  const JsonFields rope = rope_object(f);
  if (l.rope.scaling == RopeScaling::yarn) {  // whose factors are on the attention's scale, too
    l.rope.attention_factor = rope.number("attention_factor", 0);
    l.rope.mscale = rope.number("mscale", 0);
    l.rope.mscale_all = rope.number("mscale_all_dim", 0);
  }
  if (l.kv_heads != l.heads && l.kv_heads != 0) {
    throw Error(ErrorKind::unsupported,
                fmt::format("{}: num_key_value_heads is {}, and latent attention has as many as the {} heads",
                            f.name(), l.kv_heads, l.heads));
  }
  l.kv_heads = 0;
  l.kv_rank = f.integer("kv_lora_rank", 512);
  l.q_rank = f.says_none("q_lora_rank") ? 0 : f.integer("q_lora_rank", 1536);
  l.rope_dim = f.integer("qk_rope_head_dim", 64);
  l.head_dim = f.integer("qk_nope_head_dim", 128) + l.rope_dim;
  l.value_dim = f.integer("v_head_dim", 128);
  l.attention_bias = l.attention_output_bias = f.flag("attention_bias", false);
}

// The experts of `c.layer`, and the dense layers below.
void read_experts(const JsonFields& f, ModelConfig& c, const Sizes& d) {
  LayerConfig& l = c.layer;
  LayerConfig dense = l;
  dense.experts = 0;
  const int64_t shared = f.integer("n_shared_experts", d.shared);
  if (shared < 1) f.wrong("n_shared_experts", "at least 1");
  l.ffn_width = f.integer("moe_intermediate_size", d.width);
  l.experts_per_token = f.integer("num_experts_per_tok", d.top_k);
  l.shared_experts = 1;  // one map, as wide as all
  l.shared_width = shared * l.ffn_width;
  const int64_t first = f.integer("first_k_dense_replace", d.first_sparse);
  std::vector<LayerConfig> layers(c.decoder_layers, l);
  for (int64_t i = 0; i < std::min(first, c.decoder_layers); ++i) layers[i] = dense;
  set_layers(c, layers);
  c.router_aux = 0;
}

// Keys of both. Returns a sparse layer, or a dense one where there is none.
LayerConfig write_both(const ModelConfig& c, JsonObject j) {
  LayerConfig l = resolved_layer(c, Side::decoder, 0);
  int64_t first = 0, dense_width = l.ffn_width;
  while (first < c.decoder_layers && layer_config(c, Side::decoder, first).experts == 0) ++first;
  if (first < c.decoder_layers) l = resolved_layer(c, Side::decoder, first);
  write_decoder(c, l, j);
  j["head_dim"] = l.rope_dim;
  j["intermediate_size"] = dense_width;
  j["kv_lora_rank"] = l.kv_rank;
  j["q_lora_rank"] = nullptr;
  if (l.q_rank > 0) j["q_lora_rank"] = l.q_rank;
  j["qk_rope_head_dim"] = l.rope_dim;
  j["qk_nope_head_dim"] = l.head_dim - l.rope_dim;
  j["qk_head_dim"] = l.head_dim;
  j["v_head_dim"] = l.value_dim;
  j["attention_bias"] = l.attention_bias;
  j["first_k_dense_replace"] = first;
  j["moe_intermediate_size"] = l.ffn_width;
  j["n_routed_experts"] = l.experts;
  j["n_shared_experts"] = l.ffn_width > 0 ? std::max<int64_t>(l.shared_width / l.ffn_width, 1) : 1;
  j["num_experts_per_tok"] = l.experts_per_token;
  j["routed_scaling_factor"] = l.router_scale;
  j["n_group"] = l.router_groups;
  j["topk_group"] = l.router_top_groups;
  return l;
}

ModelConfig read_2(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "deepseek_v2", .vocab_size = 102400, .bos_id = 1, .eos_id = 2});
  LayerConfig& l = c.layer;
  read_attention(f, l);
  l.rope.interleaved = true;
  refuse_unless(f, "mlp_bias", false);
  l.experts = f.integer("n_routed_experts", f.integer("num_experts", 64));
  l.router_normalize = false;  // norm_topk_prob is never read
  l.router_scale = f.number("routed_scaling_factor", 1);
  const std::string method = f.text("topk_method", "greedy");
  if (method == "group_limited_greedy") {
    l.router_groups = f.integer("n_group", 1);
    l.router_top_groups = f.integer("topk_group", 1);
  } else if (method != "greedy") {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("{}: topk_method \"{}\" is not supported; plumb has greedy and group_limited_greedy",
                    f.name(), method));
  }
  read_experts(f, c, {});
  return c;
}

void write_2(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = write_both(c, j);
  j["topk_method"] = l.router_groups > 1 ? "group_limited_greedy" : "greedy";
  j["norm_topk_prob"] = false;
  j["mlp_bias"] = false;
}

ModelConfig read_3(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "deepseek_v3",
                                   .vocab_size = 129280,
                                   .width = 7168,
                                   .layers = 61,
                                   .heads = 128,
                                   .kv_heads = 128,
                                   .ffn_width = 18432,
                                   .max_length = 4096,
                                   .bos_id = 0,
                                   .eos_id = 1});
  LayerConfig& l = c.layer;
  read_attention(f, l);
  l.rope.interleaved = f.flag("rope_interleave", true);
  l.experts = f.integer("n_routed_experts", f.integer("num_local_experts", 256));
  l.router = Router::sigmoid;
  l.router_correction = true;
  l.router_normalize = f.flag("norm_topk_prob", true);
  l.router_scale = f.number("routed_scaling_factor", 2.5);
  l.router_groups = f.integer("n_group", 8);
  l.router_top_groups = f.integer("topk_group", 4);
  l.router_group_by = RouterGroup::best_two;
  read_experts(f, c, {.experts = 256, .top_k = 8, .shared = 1, .width = 2048, .first_sparse = 3});
  return c;
}

void write_3(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = write_both(c, j);
  j["rope_interleave"] = l.rope.interleaved;
  j["norm_topk_prob"] = l.router_normalize;
}

constexpr TensorName kNames[] = {
    {"token_embedding", "model.embed_tokens"},
    {"decoder.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"decoder.#.attention.query", "model.layers.#.self_attn.q_proj"},
    {"decoder.#.attention.latent", "model.layers.#.self_attn.kv_a_proj_with_mqa"},
    {"decoder.#.attention.latent_norm", "model.layers.#.self_attn.kv_a_layernorm"},
    {"decoder.#.attention.key_value", "model.layers.#.self_attn.kv_b_proj"},
    {"decoder.#.attention.query_latent", "model.layers.#.self_attn.q_a_proj"},
    {"decoder.#.attention.query_latent_norm", "model.layers.#.self_attn.q_a_layernorm"},
    {"decoder.#.attention.query_up", "model.layers.#.self_attn.q_b_proj"},
    {"decoder.#.attention.output", "model.layers.#.self_attn.o_proj"},
    {"decoder.#.feed_forward.norm_in", "model.layers.#.post_attention_layernorm"},
    {"decoder.#.feed_forward.gate", "model.layers.#.mlp.gate_proj"},
    {"decoder.#.feed_forward.up", "model.layers.#.mlp.up_proj"},
    {"decoder.#.feed_forward.down", "model.layers.#.mlp.down_proj"},
    {"decoder.#.feed_forward.router.correction", "model.layers.#.mlp.gate.e_score_correction_bias"},
    {"decoder.#.feed_forward.router", "model.layers.#.mlp.gate"},
    {"decoder.#.feed_forward.experts.*.gate", "model.layers.#.mlp.experts.*.gate_proj"},
    {"decoder.#.feed_forward.experts.*.up", "model.layers.#.mlp.experts.*.up_proj"},
    {"decoder.#.feed_forward.experts.*.down", "model.layers.#.mlp.experts.*.down_proj"},
    {"decoder.#.feed_forward.shared.*.gate", "model.layers.#.mlp.shared_experts.gate_proj"},
    {"decoder.#.feed_forward.shared.*.up", "model.layers.#.mlp.shared_experts.up_proj"},
    {"decoder.#.feed_forward.shared.*.down", "model.layers.#.mlp.shared_experts.down_proj"},
    {"decoder.final_norm", "model.norm"},
    {"head", "lm_head"},
};

}  // namespace

const Family kDeepseekV2{.type = "deepseek_v2",
                         .architecture = "DeepseekV2ForCausalLM",
                         .read = read_2,
                         .write = write_2,
                         .prefix = "model.",
                         .names = kNames,
                         .copies = kLlamaCopies,
                         .ignored = kLlamaIgnored};

const Family kDeepseekV3{.type = "deepseek_v3",
                         .architecture = "DeepseekV3ForCausalLM",
                         .read = read_3,
                         .write = write_3,
                         .prefix = "model.",
                         .names = kNames,
                         .copies = kLlamaCopies,
                         .ignored = kLlamaIgnored,
                         .predicts_ahead = true};

}  // namespace plumb
