// BLOOM (Scao et al. 2022, 2211.05100): pre-norm with ALiBi and a norm on the embeddings.
#include "model/decoder_fields.h"
#include "model/llama_names.h"

namespace plumb {
namespace {

// The length is for the trainer alone: nothing in the model bounds it.
constexpr DecoderKeys kKeys{.layers = "n_layer",
                            .heads = "n_head",
                            .max_length = "seq_length",
                            .kv_heads = nullptr,
                            .head_dim = nullptr,
                            .ffn_width = nullptr,
                            .norm_eps = "layer_norm_epsilon",
                            .activation = nullptr,
                            .dropout = "hidden_dropout",
                            .rope = RopeKeys::none};

ModelConfig read(const JsonFields& f) {
  ModelConfig c = read_decoder(f, {.type = "bloom",
                                   .vocab_size = 250880,
                                   .width = 64,
                                   .layers = 2,
                                   .heads = 8,
                                   .ffn_width = 0,
                                   .norm = NormKind::layer_norm,
                                   .norm_eps = 1e-5,
                                   .activation = "gelu_new",
                                   .gated = false,
                                   .tied = true,
                                   .padding_row = false,
                                   .bos_id = 1,
                                   .eos_id = 2,
                                   .keys = kKeys});
  c.width = f.integer("n_embed", c.width);
  c.positions = Positions::alibi;
  c.embedding_norm = true;
  LayerConfig& l = c.layer;
  l.qkv_fused = l.attention_bias = l.attention_output_bias = l.ffn_bias = true;
  refuse_unless(f, "apply_residual_connection_post_layernorm", false);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  write_decoder(c, resolved_layer(c, Side::decoder, 0), j, kKeys);
  j["apply_residual_connection_post_layernorm"] = false;
}

constexpr TensorName kNames[] = {
    {"token_embedding", "transformer.word_embeddings"},
    {"decoder.embedding_norm", "transformer.word_embeddings_layernorm"},
    {"decoder.#.attention.norm_in", "transformer.h.#.input_layernorm"},
    {"decoder.#.attention.qkv", "transformer.h.#.self_attention.query_key_value", {.by_group = true}},
    {"decoder.#.attention.output", "transformer.h.#.self_attention.dense"},
    {"decoder.#.feed_forward.norm_in", "transformer.h.#.post_attention_layernorm"},
    {"decoder.#.feed_forward.up", "transformer.h.#.mlp.dense_h_to_4h"},
    {"decoder.#.feed_forward.down", "transformer.h.#.mlp.dense_4h_to_h"},
    {"decoder.final_norm", "transformer.ln_f"},
    {"head", "lm_head"},
};

}  // namespace

const Family kBloom{.type = "bloom",
                    .architecture = "BloomForCausalLM",
                    .read = read,
                    .write = write,
                    .prefix = "transformer.",
                    .names = kNames,
                    .copies = kLlamaCopies};

}  // namespace plumb
