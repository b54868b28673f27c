#include "model/decoder_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/rope_fields.h"
#include "plumb/error.h"

namespace plumb {

namespace {

constexpr int64_t kDynamicReach = 8;  // lengths of its training that a model with a dynamic base reads
constexpr const char* kFraction = "partial_rotary_factor";

double number(const JsonFields& f, const char* key, double absent) {
  return key ? f.number(key, absent) : absent;
}

bool flag(const JsonFields& f, const char* key, bool absent) {
  return key ? f.flag(key, absent) : absent;
}

// An id of these that the vocabulary lacks is no matter to the families' own code.
void read_special_ids(const JsonFields& f, const DecoderDefaults& d, ModelConfig& c) {
  const auto known = [&](int64_t id) { return id < c.vocab_size ? id : -1; };
  c.bos_id = known(d.bos_id);
  if (known(d.eos_id) >= 0) c.eos_ids = {d.eos_id};
  c.pad_id = known(d.pad_id);
  read_ids(f, c);
  c.pad_untrained = d.padding_row && c.pad_id >= 0;
}

void read_positions(const JsonFields& f, const DecoderDefaults& d, ModelConfig& c) {
  if (d.keys.rope == RopeKeys::none) return;
  RopeConfig& r = c.layer.rope;
  r = read_rope(f, d.rope);
  const JsonFields rope = rope_object(f);
  if (d.keys.rope == RopeKeys::part) {
    r.fraction = rope.number(kFraction, f.number(kFraction, d.rope.fraction));
  } else if (r.scaling != RopeScaling::none) {  // without, the reference never reads it
    refuse_unless(rope, kFraction, 1.0);
    refuse_unless(f, kFraction, 1.0);
  }
  if (r.scaling == RopeScaling::dynamic) {  // which goes on beyond the length of its training
    r.original_length = c.max_length;
    c.max_length *= kDynamicReach;
  }
}

void read_layer(const JsonFields& f, const DecoderDefaults& d, LayerConfig& l) {
  const DecoderKeys& k = d.keys;
  l.placement = Placement::pre_norm;
  l.norm = d.norm;
  l.norm_eps = number(f, k.norm_eps, d.norm_eps);
  l.norm_bias = d.norm == NormKind::layer_norm;
  l.kv_heads = k.kv_heads ? f.integer_or_none(k.kv_heads, d.kv_heads) : d.kv_heads;
  l.head_dim = k.head_dim ? f.integer_or_none(k.head_dim, d.head_dim) : d.head_dim;
  l.attention_bias = flag(f, k.attention_bias, d.attention_bias);
  l.attention_output_bias = flag(f, k.output_bias, false);
  l.ffn_width = k.ffn_width ? f.integer(k.ffn_width, d.ffn_width) : d.ffn_width;
  l.activation = activation_named(f, k.activation ? k.activation : "", d.activation);
  l.gated = d.gated;
  l.ffn_bias = flag(f, k.ffn_bias, false);
}

}  // namespace

ModelConfig read_decoder(const JsonFields& f, const DecoderDefaults& d) {
  const DecoderKeys& k = d.keys;
  constexpr DecoderKeys usual;
  const auto size = [&](const char* first, const char* key, int64_t absent) {
    return key ? f.integer(f.has(first) ? first : key, absent) : absent;
  };
  ModelConfig c{.model_type = std::string(d.type)};
  c.vocab_size = f.integer("vocab_size", d.vocab_size);
  c.width = size(usual.width, k.width, d.width);
  c.max_length = size(usual.max_length, k.max_length, d.max_length);
  c.decoder_layers = size(usual.layers, k.layers, d.layers);
  if (c.decoder_layers < 0 || c.decoder_layers > 100000) f.wrong(k.layers, "0 to 100000 layers");
  c.positions = Positions::rope;
  c.final_norm = true;
  c.tied_embeddings = f.flag("tie_word_embeddings", d.tied);
  c.dropout = number(f, k.dropout, d.dropout);
  c.attention_dropout = number(f, k.attention_dropout, d.attention_dropout);
  c.embedding_dropout = number(f, k.embedding_dropout, d.embedding_dropout);
  c.init = Init::normal;
  c.init_std = number(f, k.init_std, d.init_std);
  read_special_ids(f, d, c);
  c.layer.heads = size(usual.heads, k.heads, d.heads);
  read_layer(f, d, c.layer);
  read_positions(f, d, c);
  return c;
}

void write_decoder(const ModelConfig& c, const LayerConfig& l, JsonObject j, const DecoderKeys& k) {
  const auto say = [&](const char* key, const JsonValue& value) {
    if (key) j[key] = value;
  };
  const bool dynamic = k.rope != RopeKeys::none && l.rope.scaling == RopeScaling::dynamic;
  j["vocab_size"] = c.vocab_size;
  say(k.width, c.width);
  say(k.max_length, dynamic ? l.rope.original_length : c.max_length);
  say(k.layers, c.decoder_layers);
  say(k.heads, l.heads);
  say(k.kv_heads, l.kv_heads);
  say(k.head_dim, l.head_dim);
  say(k.ffn_width, l.ffn_width);
  say(k.activation, activation_name(l.activation));
  say(k.norm_eps, l.norm_eps);
  say(k.attention_bias, l.attention_bias);
  say(k.output_bias, l.attention_output_bias);
  say(k.ffn_bias, l.ffn_bias);
  if (k.rope != RopeKeys::none) write_rope(l.rope, j);
  if (k.rope == RopeKeys::part) j[kFraction] = l.rope.fraction;
  j["tie_word_embeddings"] = c.tied_embeddings;
  say(k.dropout, c.dropout);
  say(k.attention_dropout, c.attention_dropout);
  say(k.embedding_dropout, c.embedding_dropout);
  say(k.init_std, c.init_std);
  write_ids(c, j);
}

void read_balance(const JsonFields& f, ModelConfig& c, double absent) {
  c.router_aux_joint = true;
  c.router_aux = f.flag("output_router_logits", false) ? f.number("router_aux_loss_coef", absent) : 0;
}

void write_balance(const ModelConfig& c, JsonObject j, double absent) {
  j["output_router_logits"] = c.router_aux > 0;
  j["router_aux_loss_coef"] = c.router_aux > 0 ? c.router_aux : absent;
}

void set_layers(ModelConfig& c, const std::vector<LayerConfig>& layers) {
  c.decoder_runs.clear();
  if (layers.empty()) return;
  c.layer = layers.back();
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] == c.layer) continue;
    if (i > 0 && layers[i] == layers[i - 1]) {
      ++c.decoder_runs.back().count;
    } else {
      c.decoder_runs.push_back({static_cast<int64_t>(i), 1, layers[i]});
    }
  }
}

std::vector<bool> read_sliding(const JsonFields& f, int64_t layers,
                               const std::function<bool(int64_t)>& sliding) {
  std::vector<bool> is;
  if (!f.has("layer_types")) {  // more layers than that are refused later
    for (int64_t i = 0; i < std::min<int64_t>(layers, 100000); ++i) is.push_back(sliding(i));
    return is;
  }
  const std::vector<std::string> types = f.texts("layer_types");
  if (static_cast<int64_t>(types.size()) != layers) {
    throw Error(ErrorKind::config,
                fmt::format("{}: layer_types names {} layers of {}", f.name(), types.size(), layers));
  }
  is.reserve(types.size());
  for (const std::string& type : types) {
    is.push_back(type == "sliding_attention");
    if (!is.back() && type != "full_attention") {
      throw Error(ErrorKind::unsupported,
                  fmt::format("{}: layer_types has \"{}\"; plumb has full_attention and sliding_attention",
                              f.name(), type));
    }
  }
  return is;
}

void write_sliding(const ModelConfig& c, JsonObject j) {
  std::vector<std::string> types;
  types.reserve(c.decoder_layers);
  for (int64_t i = 0; i < c.decoder_layers; ++i) {
    const bool sliding = layer_config(c, Side::decoder, i).window > 0;
    types.emplace_back(sliding ? "sliding_attention" : "full_attention");
  }
  j["layer_types"] = types;
}

void read_windows(const JsonFields& f, const std::vector<bool>& sliding, int64_t window, ModelConfig& c,
                  const std::function<void(LayerConfig&, bool)>& change) {
  std::vector<LayerConfig> layers(sliding.size(), c.layer);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (sliding[i] && window < 1) f.wrong("sliding_window", "the window of layers that have one");
    if (sliding[i]) layers[i].window = window;
    if (change) change(layers[i], sliding[i]);
  }
  set_layers(c, layers);
}

int64_t write_windows(const ModelConfig& c, JsonObject j, int64_t absent) {
  int64_t any = 0;
  for (int64_t i = 0; i < c.decoder_layers; ++i)
    any = std::max(any, layer_config(c, Side::decoder, i).window);
  write_window(any > 0 ? any : absent, j);
  write_sliding(c, j);
  return any;
}

void write_window(int64_t window, JsonObject j) {
  j["sliding_window"] = nullptr;
  if (window > 0) j["sliding_window"] = window;
}

double inverse(double x) {
  const double y = 1 / x;
  for (const double near : {std::nextafter(y, 0), std::nextafter(y, INFINITY)}) {
    if (1 / y != x && 1 / near == x) return near;
  }
  return y;
}

}  // namespace plumb
