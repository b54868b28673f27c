// GPT-2 (Radford et al. 2019): pre-norm with LayerNorm, learned positions, tied embeddings; matrices are
// stored (in, out), and queries, keys and values in one.
#include <cmath>
#include "model/families.h"

namespace plumb {
namespace {

double default_scale(const ModelConfig& c, const LayerConfig& layer) {
  return 1 / std::sqrt(static_cast<double>(c.width) / static_cast<double>(layer.heads));
}

// Attention logits may also be divided by the layer's number, from 1.
void scale_by_layer(ModelConfig& c) {
  const double scale = c.layer.attention_scale != 0 ? c.layer.attention_scale : default_scale(c, c.layer);
  for (int64_t i = 0; i < c.decoder_layers; ++i) {
    LayerRun run{.first = i, .count = 1, .layer = c.layer};
    run.layer.attention_scale = scale / static_cast<double>(i + 1);
    c.decoder_runs.push_back(run);
  }
}

ModelConfig read(const JsonFields& f) {
  ModelConfig c{.model_type = "gpt2"};
  c.vocab_size = f.integer("vocab_size", 50257);
  c.width = f.integer("n_embd", 768);
  c.max_length = f.integer("n_positions", f.integer("n_ctx", 1024));
  c.decoder_layers = f.integer("n_layer", 12);
  c.positions = Positions::learned;
  c.final_norm = true;
  c.tied_embeddings = f.flag("tie_word_embeddings", true);
  c.linear_in_out = true;
  c.dropout = f.number("resid_pdrop", 0.1);
  c.attention_dropout = f.number("attn_pdrop", 0.1);
  c.embedding_dropout = f.number("embd_pdrop", 0.1);
  c.init = Init::scaled_normal;
  c.init_std = f.number("initializer_range", 0.02);
  c.bos_id = 50256;
  c.eos_ids = {50256};
  read_ids(f, c);

  LayerConfig& l = c.layer;
  l.placement = Placement::pre_norm;
  l.norm = NormKind::layer_norm;
  l.norm_eps = f.number("layer_norm_epsilon", 1e-5);
  l.norm_bias = true;
  l.heads = f.integer("n_head", 12);
  l.qkv_fused = l.attention_bias = l.attention_output_bias = true;
  l.attention_scale = f.flag("scale_attn_weights", true) ? 0 : 1;
  l.ffn_width = f.integer("n_inner", 4 * c.width);
  l.activation = activation_named(f, "activation_function", "gelu_new");
  l.gated = false;
  l.ffn_bias = true;
  if (f.flag("scale_attn_by_inverse_layer_idx", false) && l.heads > 0) scale_by_layer(c);
  refuse_unless(f, "add_cross_attention", false);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  const bool by_layer = c.decoder_layers > 1 && l.attention_scale != 0 &&
                        resolved_layer(c, Side::decoder, 1).attention_scale == l.attention_scale / 2;
  j["vocab_size"] = c.vocab_size;
  j["n_embd"] = c.width;
  j["n_positions"] = c.max_length;
  j["n_ctx"] = c.max_length;
  j["n_layer"] = c.decoder_layers;
  j["n_head"] = l.heads;
  j["n_inner"] = l.ffn_width;
  j["activation_function"] =
      l.activation == Activation::gelu_tanh ? "gelu_new" : activation_name(l.activation);
  j["layer_norm_epsilon"] = l.norm_eps;
  j["scale_attn_weights"] = l.attention_scale != 1;
  j["scale_attn_by_inverse_layer_idx"] = by_layer;
  j["tie_word_embeddings"] = c.tied_embeddings;
  j["resid_pdrop"] = c.dropout;
  j["attn_pdrop"] = c.attention_dropout;
  j["embd_pdrop"] = c.embedding_dropout;
  j["initializer_range"] = c.init_std;
  write_ids(c, j);
}

constexpr TensorName kNames[] = {
    {"token_embedding", "transformer.wte"},
    {"decoder.position_embedding", "transformer.wpe"},
    {"decoder.#.attention.norm_in", "transformer.h.#.ln_1"},
    {"decoder.#.attention.qkv", "transformer.h.#.attn.c_attn"},
    {"decoder.#.attention.output", "transformer.h.#.attn.c_proj"},
    {"decoder.#.feed_forward.norm_in", "transformer.h.#.ln_2"},
    {"decoder.#.feed_forward.up", "transformer.h.#.mlp.c_fc"},
    {"decoder.#.feed_forward.down", "transformer.h.#.mlp.c_proj"},
    {"decoder.final_norm", "transformer.ln_f"},
    {"head", "lm_head"},
};
constexpr TensorName kCopies[] = {{"token_embedding.weight", "lm_head.weight"}};
constexpr std::string_view kIgnored[] = {"h.#.attn.bias", "h.#.attn.masked_bias"};  // the causal mask

}  // namespace

const Family kGpt2{.type = "gpt2",
                   .architecture = "GPT2LMHeadModel",
                   .read = read,
                   .write = write,
                   .prefix = "transformer.",
                   .names = kNames,
                   .copies = kCopies,
                   .ignored = kIgnored};

}  // namespace plumb
