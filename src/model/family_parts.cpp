#include "model/family_parts.h"

#include "model/families.h"
#include "model/rope_fields.h"

namespace plumb {
namespace {

double number(const JsonFields& f, const KeyOf<double>& k) {
  return k.key ? f.number(k.key, k.absent) : k.absent;
}

template <class T, class V>
void say(JsonObject j, const KeyOf<T>& k, const V& value) {
  if (k.key) j[k.key] = value;
}

}  // namespace

ModelConfig read_decoder(const JsonFields& f, const DecoderKeys& k) {
  const auto size = [&](const char* usual, const KeyOf<int64_t>& own) {
    return own.key ? f.integer(f.has(usual) ? usual : own.key, own.absent) : own.absent;
  };
  ModelConfig c{.model_type = k.type};
  c.vocab_size = f.integer("vocab_size", k.vocab_size);
  c.width = size("hidden_size", k.width);
  c.max_length = size("max_position_embeddings", k.length);
  c.decoder_layers = size("num_hidden_layers", k.layers);
  c.final_norm = true;
  c.tied_embeddings = f.flag("tie_word_embeddings", k.tied);
  c.dropout = number(f, k.dropout);
  c.attention_dropout = number(f, k.attention_dropout);
  c.embedding_dropout = number(f, k.embedding_dropout);
  c.init = Init::normal;
  c.init_std = number(f, k.init_std);
  c.bos_id = k.bos;
  if (k.eos >= 0) c.eos_ids = {k.eos};
  c.pad_id = k.pad;
  read_ids(f, c);
  c.pad_untrained = k.padding_row && c.pad_id >= 0;

  LayerConfig& l = c.layer;
  l.placement = Placement::pre_norm;
  l.norm = NormKind::layer_norm;
  l.norm_eps = number(f, k.eps);
  l.norm_bias = true;
  l.heads = size("num_attention_heads", k.heads);
  l.kv_heads = size("num_key_value_heads", k.kv_heads);
  l.ffn_width = k.ffn.key ? f.integer(k.ffn.key, k.ffn.absent) : k.ffn.absent;
  l.activation = activation_named(f, k.activation.key ? k.activation.key : "", k.activation.absent);
  l.gated = false;
  return c;
}

void write_decoder(const ModelConfig& c, const DecoderKeys& k, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  j["vocab_size"] = c.vocab_size;
  say(j, k.width, c.width);
  say(j, k.length, c.max_length);
  say(j, k.layers, c.decoder_layers);
  say(j, k.heads, l.heads);
  say(j, k.kv_heads, l.kv_heads);
  say(j, k.ffn, l.ffn_width);
  say(j, k.activation, activation_name(l.activation));
  say(j, k.eps, l.norm_eps);
  j["tie_word_embeddings"] = c.tied_embeddings;
  say(j, k.dropout, c.dropout);
  say(j, k.attention_dropout, c.attention_dropout);
  say(j, k.embedding_dropout, c.embedding_dropout);
  say(j, k.init_std, c.init_std);
  write_ids(c, j);
}

RopeConfig read_part_rope(const JsonFields& f, double fraction) {
  return read_rope(f, {.fraction = fraction});
}

void write_part_rope(const RopeConfig& rope, JsonObject j) {
  write_rope(rope, j);
  j["partial_rotary_factor"] = rope.fraction;
}

}  // namespace plumb
