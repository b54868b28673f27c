// Marian (Junczys-Dowmunt et al. 2018, 1804.00344), as the opus-mt models are published: a post-norm
// encoder-decoder with fixed sinusoidal positions and one embedding for both sides and the head.
#include <cmath>
#include "model/families.h"

namespace plumb {
namespace {

void read_layers(const JsonFields& f, ModelConfig& c) {
  LayerConfig& l = c.layer;
  l.placement = Placement::post_norm;
  l.norm = NormKind::layer_norm;
  l.norm_eps = 1e-5;
  l.norm_bias = true;
  l.attention_bias = l.attention_output_bias = true;
  l.activation = activation_named(f, "activation_function", "gelu");
  l.gated = false;
  l.ffn_bias = true;
  l.heads = f.integer("encoder_attention_heads", 16);
  l.ffn_width = f.integer("encoder_ffn_dim", 4096);
  LayerConfig decoder = l;
  decoder.heads = f.integer("decoder_attention_heads", 16);
  decoder.ffn_width = f.integer("decoder_ffn_dim", 4096);
  if (decoder != l) c.decoder_runs = {{.first = 0, .count = c.decoder_layers, .layer = decoder}};
}

void refuse_other_marians(const JsonFields& f) {
  refuse_unless(f, "normalize_before", false);
  refuse_unless(f, "normalize_embedding", false);
  refuse_unless(f, "add_final_layer_norm", false);
  refuse_unless(f, "static_position_embeddings", true);
  for (const char* key : {"activation_dropout", "encoder_layerdrop", "decoder_layerdrop"})
    warn_unless_zero(f, key);
}

ModelConfig read(const JsonFields& f) {
  ModelConfig c{.model_type = "marian"};
  c.vocab_size = f.integer("vocab_size", 58101);
  refuse_unless(f, "decoder_vocab_size", c.vocab_size);
  c.width = f.integer("d_model", 1024);
  c.max_length = f.integer("max_position_embeddings", 1024);
  c.encoder_layers = f.integer("encoder_layers", 12);
  c.decoder_layers = f.integer("decoder_layers", 12);
  c.positions = Positions::sinusoidal;
  c.sinusoidal_split = true;
  c.embedding_scale = f.flag("scale_embedding", false) ? std::sqrt(static_cast<double>(c.width)) : 1;
  c.final_norm = false;
  c.shared_embeddings = f.flag("share_encoder_decoder_embeddings", true);
  c.tied_embeddings = f.flag("tie_word_embeddings", true);
  c.logits_bias = true;
  c.dropout = f.number("dropout", 0.1);
  c.attention_dropout = f.number("attention_dropout", 0);
  c.embedding_dropout = c.dropout;
  c.init = Init::normal;
  c.init_std = f.number("init_std", 0.02);
  c.pad_id = 58100;
  c.eos_ids = {0};
  read_ids(f, c);
  c.pad_untrained = c.pad_id >= 0;
  c.decoder_start_id = f.id("decoder_start_token_id", 58100);
  read_layers(f, c);
  refuse_other_marians(f);
  return c;
}

void write(const ModelConfig& c, JsonObject j) {
  const LayerConfig encoder = resolved_layer(c, Side::encoder, 0),
                    decoder = resolved_layer(c, Side::decoder, 0);
  j["is_encoder_decoder"] = true;
  j["vocab_size"] = c.vocab_size;
  j["decoder_vocab_size"] = c.vocab_size;
  j["d_model"] = c.width;
  j["max_position_embeddings"] = c.max_length;
  j["encoder_layers"] = c.encoder_layers;
  j["decoder_layers"] = c.decoder_layers;
  j["encoder_attention_heads"] = encoder.heads;
  j["decoder_attention_heads"] = decoder.heads;
  j["encoder_ffn_dim"] = encoder.ffn_width;
  j["decoder_ffn_dim"] = decoder.ffn_width;
  j["activation_function"] = activation_name(encoder.activation);
  j["scale_embedding"] = c.embedding_scale != 1;
  j["share_encoder_decoder_embeddings"] = c.shared_embeddings;
  j["tie_word_embeddings"] = c.tied_embeddings;
  j["static_position_embeddings"] = true;
  j["dropout"] = c.dropout;
  j["attention_dropout"] = c.attention_dropout;
  j["activation_dropout"] = 0.0;
  j["init_std"] = c.init_std;
  write_ids(c, j);
  j["decoder_start_token_id"] = nullptr;
  if (c.decoder_start_id >= 0) j["decoder_start_token_id"] = c.decoder_start_id;
}

constexpr TensorName kNames[] = {
    {"token_embedding", "model.shared"},
    {"encoder.token_embedding", "model.encoder.embed_tokens"},
    {"decoder.token_embedding", "model.decoder.embed_tokens"},
    {"encoder.#.attention.query", "model.encoder.layers.#.self_attn.q_proj"},
    {"encoder.#.attention.key", "model.encoder.layers.#.self_attn.k_proj"},
    {"encoder.#.attention.value", "model.encoder.layers.#.self_attn.v_proj"},
    {"encoder.#.attention.output", "model.encoder.layers.#.self_attn.out_proj"},
    {"encoder.#.attention.norm_out", "model.encoder.layers.#.self_attn_layer_norm"},
    {"encoder.#.feed_forward.up", "model.encoder.layers.#.fc1"},
    {"encoder.#.feed_forward.down", "model.encoder.layers.#.fc2"},
    {"encoder.#.feed_forward.norm_out", "model.encoder.layers.#.final_layer_norm"},
    {"decoder.#.attention.query", "model.decoder.layers.#.self_attn.q_proj"},
    {"decoder.#.attention.key", "model.decoder.layers.#.self_attn.k_proj"},
    {"decoder.#.attention.value", "model.decoder.layers.#.self_attn.v_proj"},
    {"decoder.#.attention.output", "model.decoder.layers.#.self_attn.out_proj"},
    {"decoder.#.attention.norm_out", "model.decoder.layers.#.self_attn_layer_norm"},
    {"decoder.#.cross_attention.query", "model.decoder.layers.#.encoder_attn.q_proj"},
    {"decoder.#.cross_attention.key", "model.decoder.layers.#.encoder_attn.k_proj"},
    {"decoder.#.cross_attention.value", "model.decoder.layers.#.encoder_attn.v_proj"},
    {"decoder.#.cross_attention.output", "model.decoder.layers.#.encoder_attn.out_proj"},
    {"decoder.#.cross_attention.norm_out", "model.decoder.layers.#.encoder_attn_layer_norm"},
    {"decoder.#.feed_forward.up", "model.decoder.layers.#.fc1"},
    {"decoder.#.feed_forward.down", "model.decoder.layers.#.fc2"},
    {"decoder.#.feed_forward.norm_out", "model.decoder.layers.#.final_layer_norm"},
    {"head.logits_bias", "final_logits_bias"},
    {"head", "lm_head"},
};
constexpr TensorName kCopies[] = {{"token_embedding.weight", "lm_head.weight"},
                                  {"decoder.token_embedding.weight", "lm_head.weight"},
                                  {"token_embedding.weight", "model.encoder.embed_tokens.weight"},
                                  {"token_embedding.weight", "model.decoder.embed_tokens.weight"}};
// Tables that are worked out.
constexpr std::string_view kIgnored[] = {"encoder.embed_positions.weight", "decoder.embed_positions.weight"};

}  // namespace

const Family kMarian{.type = "marian",
                     .architecture = "MarianMTModel",
                     .read = read,
                     .write = write,
                     .prefix = "model.",
                     .names = kNames,
                     .copies = kCopies,
                     .ignored = kIgnored};

}  // namespace plumb
