// OPT (Zhang et al. 2022, 2205.01068): learned positions from row 2 of their table on. The 350M model is
// post-norm, and its token vectors are narrower than its stream.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

constexpr DecoderKeys kKeys{.kv_heads = nullptr,
                            .head_dim = nullptr,
                            .ffn_width = "ffn_dim",
                            .norm_eps = nullptr,
                            .activation = "activation_function",
                            .dropout = "dropout",
                            .init_std = "init_std",
                            .rope = RopeKeys::none};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "opt",
                                   .vocab_size = 50272,
                                   .width = 768,
                                   .layers = 12,
                                   .heads = 12,
                                   .ffn_width = 3072,
                                   .norm = NormKind::layer_norm,
                                   .norm_eps = 1e-5,
                                   .activation = "relu",
                                   .gated = false,
                                   .tied = true,
                                   .dropout = 0.1,
                                   .bos_id = 2,
                                   .eos_id = 2,
                                   .pad_id = 1,
                                   .keys = kKeys});
  c.positions = Positions::learned;
  c.position_offset = 2;
  const int64_t token_width = f.integer("word_embed_proj_dim", c.width);
  c.embedding_width = token_width == c.width ? 0 : token_width;
  const bool before = f.flag("do_layer_norm_before", true);
  c.final_norm = before && !f.flag("_remove_final_layer_norm", false);
  LayerConfig& l = c.layer;
  l.placement = before ? Placement::pre_norm : Placement::post_norm;
  l.attention_bias = l.attention_output_bias = l.ffn_bias = f.flag("enable_bias", true);
  l.norm_affine = l.norm_bias = f.flag("layer_norm_elementwise_affine", true);
  warn_unless_zero(f, "layerdrop");
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  const bool before = sublayer_formula(c, Side::decoder, 0).norm_in;
  write_decoder(c, l, j, kKeys);
  j["word_embed_proj_dim"] = c.embedding_width > 0 ? c.embedding_width : c.width;
  j["do_layer_norm_before"] = before;
  j["_remove_final_layer_norm"] = before && !has_final_norm(c, Side::decoder);
  j["enable_bias"] = l.ffn_bias;
  j["layer_norm_elementwise_affine"] = l.norm_affine;
}

constexpr TensorName kNames[] = {
    {"token_embedding", "model.decoder.embed_tokens"},
    {"embedding_in", "model.decoder.project_in"},
    {"embedding_out", "model.decoder.project_out"},
    {"decoder.position_embedding", "model.decoder.embed_positions"},
    {"decoder.#.attention.query", "model.decoder.layers.#.self_attn.q_proj"},
    {"decoder.#.attention.key", "model.decoder.layers.#.self_attn.k_proj"},
    {"decoder.#.attention.value", "model.decoder.layers.#.self_attn.v_proj"},
    {"decoder.#.attention.output", "model.decoder.layers.#.self_attn.out_proj"},
    {"decoder.#.attention.norm_in", "model.decoder.layers.#.self_attn_layer_norm"},
    {"decoder.#.attention.norm_out", "model.decoder.layers.#.self_attn_layer_norm"},
    {"decoder.#.feed_forward.up", "model.decoder.layers.#.fc1"},
    {"decoder.#.feed_forward.down", "model.decoder.layers.#.fc2"},
    {"decoder.#.feed_forward.norm_in", "model.decoder.layers.#.final_layer_norm"},
    {"decoder.#.feed_forward.norm_out", "model.decoder.layers.#.final_layer_norm"},
    {"decoder.final_norm", "model.decoder.final_layer_norm"},
    {"head", "lm_head"},
};

}  // namespace

const Family kOpt{.type = "opt",
                  .architecture = "OPTForCausalLM",
                  .read = read,
                  .write = write,
                  .prefix = "model.",
                  .names = kNames,
                  .copies = kLlamaCopies};

}  // namespace plumb
