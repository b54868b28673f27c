// LLaMA (Touvron et al. 2023, 2302.13971): pre-norm with RMSNorm, rotary positions, SwiGLU, grouped keys and
// values.
#include <fmt/format.h>

#include "model/families.h"
#include "plumb/error.h"

namespace plumb {
namespace {

// rope_parameters of today, or rope_theta and rope_scaling of before.
void read_rope(const JsonFields& f, ModelConfig& c) {
  const bool today = f.has("rope_parameters");
  const JsonFields rope = f.object(today ? "rope_parameters" : "rope_scaling");
  c.layer.rope.base = f.number("rope_theta", 10000);
  if (today) c.layer.rope.base = rope.number("rope_theta", c.layer.rope.base);
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  if (type == "linear") {
    c.layer.rope.scaling = RopeScaling::linear;
    c.layer.rope.factor = rope.number("factor", 1);
  } else if (type != "default") {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("{}: rope_type \"{}\" is not supported; plumb has default and linear", f.name(), type));
  }
  refuse_unless(rope, "partial_rotary_factor", 1.0);
  refuse_unless(f, "partial_rotary_factor", 1.0);
}

ModelConfig read(const JsonFields& f) {
  ModelConfig c{.model_type = "llama"};
  c.vocab_size = f.integer("vocab_size", 32000);
  c.width = f.integer("hidden_size", 4096);
  c.max_length = f.integer("max_position_embeddings", 2048);
  c.decoder_layers = f.integer("num_hidden_layers", 32);
  c.positions = Positions::rope;
  read_rope(f, c);
  c.final_norm = true;
  c.tied_embeddings = f.flag("tie_word_embeddings", false);
  c.attention_dropout = f.number("attention_dropout", 0);
  c.init = Init::normal;
  c.init_std = f.number("initializer_range", 0.02);
  c.bos_id = 1;
  c.eos_ids = {2};
  read_ids(f, c);
  c.pad_untrained = c.pad_id >= 0;

  LayerConfig& l = c.layer;
  l.placement = Placement::pre_norm;
  l.norm = NormKind::rms_norm;
  l.norm_eps = f.number("rms_norm_eps", 1e-6);
  l.heads = f.integer("num_attention_heads", 32);
  l.kv_heads = f.integer("num_key_value_heads", 0);
  l.head_dim = f.integer("head_dim", 0);
  l.attention_bias = l.attention_output_bias = f.flag("attention_bias", false);
  l.ffn_width = f.integer("intermediate_size", 11008);
  l.activation = activation_named(f, "hidden_act", "silu");
  l.gated = true;
  l.ffn_bias = f.flag("mlp_bias", false);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  j["vocab_size"] = c.vocab_size;
  j["hidden_size"] = c.width;
  j["max_position_embeddings"] = c.max_length;
  j["num_hidden_layers"] = c.decoder_layers;
  j["num_attention_heads"] = l.heads;
  j["num_key_value_heads"] = l.kv_heads;
  j["head_dim"] = l.head_dim;
  j["intermediate_size"] = l.ffn_width;
  j["hidden_act"] = activation_name(l.activation);
  j["rms_norm_eps"] = l.norm_eps;
  j["attention_bias"] = l.attention_bias;
  j["mlp_bias"] = l.ffn_bias;
  // Both spellings: the older engines read the first two.
  const bool linear = l.rope.scaling == RopeScaling::linear;
  j["rope_theta"] = l.rope.base;
  j["rope_scaling"] = nullptr;
  JsonObject parameters = j.object("rope_parameters");
  parameters["rope_theta"] = l.rope.base;
  parameters["rope_type"] = linear ? "linear" : "default";
  if (linear) {
    JsonObject scaling = j.object("rope_scaling");
    scaling["type"] = "linear";
    scaling["rope_type"] = "linear";
    scaling["factor"] = l.rope.factor;
    parameters["factor"] = l.rope.factor;
  }
  j["tie_word_embeddings"] = c.tied_embeddings;
  j["attention_dropout"] = c.attention_dropout;
  j["initializer_range"] = c.init_std;
  write_ids(c, j);
}

constexpr TensorName kNames[] = {
    {"token_embedding", "model.embed_tokens"},
    {"decoder.#.attention.norm_in", "model.layers.#.input_layernorm"},
    {"decoder.#.attention.query", "model.layers.#.self_attn.q_proj"},
    {"decoder.#.attention.key", "model.layers.#.self_attn.k_proj"},
    {"decoder.#.attention.value", "model.layers.#.self_attn.v_proj"},
    {"decoder.#.attention.output", "model.layers.#.self_attn.o_proj"},
    {"decoder.#.feed_forward.norm_in", "model.layers.#.post_attention_layernorm"},
    {"decoder.#.feed_forward.gate", "model.layers.#.mlp.gate_proj"},
    {"decoder.#.feed_forward.up", "model.layers.#.mlp.up_proj"},
    {"decoder.#.feed_forward.down", "model.layers.#.mlp.down_proj"},
    {"decoder.final_norm", "model.norm"},
    {"head", "lm_head"},
};
constexpr TensorName kCopies[] = {{"token_embedding.weight", "lm_head.weight"}};
constexpr std::string_view kIgnored[] = {"layers.#.self_attn.rotary_emb.inv_freq"};

}  // namespace

const Family kLlama{.type = "llama",
                    .architecture = "LlamaForCausalLM",
                    .read = read,
                    .write = write,
                    .prefix = "model.",
                    .names = kNames,
                    .copies = kCopies,
                    .ignored = kIgnored};

}  // namespace plumb
