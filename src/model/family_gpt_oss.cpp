// GPT-OSS (OpenAI 2025, 2508.10925): experts with a bounded gate in every layer, a learned sink in each
// head's softmax, windows in every other layer, YaRN from the start.

#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

RopeConfig usual_rope() {
  RopeConfig rope;
  rope.base = 150000;
  rope.scaling = RopeScaling::yarn;
  rope.factor = 32;
  rope.truncate = false;
  rope.original_length = 4096;
  return rope;
}

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "gpt_oss",
                                   .vocab_size = 201088,
                                   .width = 2880,
                                   .layers = 36,
                                   .heads = 64,
                                   .kv_heads = 8,
                                   .head_dim = 64,
                                   .ffn_width = 2880,
                                   .max_length = 131072,
                                   .norm_eps = 1e-5,
                                   .rope = usual_rope()});
  LayerConfig& l = c.layer;
  l.attention_bias = l.attention_output_bias = f.flag("attention_bias", true);
  l.attention_sinks = true;
  l.activation = Activation::gelu_sigmoid;  // which is swiglu_alpha; hidden_act is never read
  refuse_unless(f, "swiglu_alpha", 1.702);
  l.ffn_limit = f.number("swiglu_limit", 7);
  l.up_offset = 1;
  l.ffn_bias = l.gate_up_fused = l.router_bias = true;
  l.experts = f.integer("num_local_experts", f.integer("num_experts", 128));
  l.experts_per_token = f.integer("num_experts_per_tok", 4);
  const std::vector<bool> sliding = read_sliding(f, c.decoder_layers, [](int64_t i) { return i % 2 == 0; });
  const int64_t window = f.says_none("sliding_window") ? 0 : f.integer("sliding_window", 128);
  std::vector<LayerConfig> layers(c.decoder_layers, l);
  for (size_t i = 0; i < layers.size(); ++i) layers[i].window = sliding[i] ? window : 0;
  set_layers(c, layers);
  read_balance(f, c, 0.001);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  LayerConfig l = resolved_layer(c, Side::decoder, 0);
  l.activation = Activation::silu;
  write_decoder(c, l, j);
  j["attention_bias"] = l.attention_bias;
  j["swiglu_alpha"] = 1.702;
  j["swiglu_limit"] = l.ffn_limit;
  j["num_local_experts"] = l.experts;
  j["num_experts_per_tok"] = l.experts_per_token;
  j["sliding_window"] = 128;
  for (int64_t i = 0; i < c.decoder_layers; ++i) {
    if (const int64_t window = layer_config(c, Side::decoder, i).window; window > 0)
      j["sliding_window"] = window;
  }
  write_sliding(c, j);
  write_balance(c, j, 0.001);
}

constexpr TensorName kNames[] = {
    {"token_embedding", "model.embed_tokens"},
    {"decoder.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"decoder.#.attention.query", "model.layers.#.self_attn.q_proj"},
    {"decoder.#.attention.key", "model.layers.#.self_attn.k_proj"},
    {"decoder.#.attention.value", "model.layers.#.self_attn.v_proj"},
    {"decoder.#.attention.output", "model.layers.#.self_attn.o_proj"},
    {"decoder.#.attention.sinks", "model.layers.#.self_attn.sinks"},
    {"decoder.#.feed_forward.norm_in", "model.layers.#.post_attention_layernorm"},
    {"decoder.#.feed_forward.router", "model.layers.#.mlp.router"},
    {"decoder.#.feed_forward.experts.*.gate_up.weight",
     "model.layers.#.mlp.experts.gate_up_proj",
     {.in_turns = true, .transposed = true, .stacked = true}},
    {"decoder.#.feed_forward.experts.*.gate_up.bias",
     "model.layers.#.mlp.experts.gate_up_proj_bias",
     {.in_turns = true, .stacked = true}},
    {"decoder.#.feed_forward.experts.*.down.weight",
     "model.layers.#.mlp.experts.down_proj",
     {.transposed = true, .stacked = true}},
    {"decoder.#.feed_forward.experts.*.down.bias",
     "model.layers.#.mlp.experts.down_proj_bias",
     {.stacked = true}},
    {"decoder.final_norm", "model.norm"},
    {"head", "lm_head"},
};

}  // namespace

const Family kGptOss{.type = "gpt_oss",
                     .architecture = "GptOssForCausalLM",
                     .read = read,
                     .write = write,
                     .prefix = "model.",
                     .names = kNames,
                     .copies = kLlamaCopies};

}  // namespace plumb
