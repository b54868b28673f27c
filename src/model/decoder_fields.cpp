#include "model/decoder_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/rope_fields.h"
#include "plumb/error.h"

namespace plumb {

ModelConfig read_decoder(const JsonFields& f, const DecoderDefaults& d) {
  ModelConfig c{.model_type = std::string(d.type)};
  c.vocab_size = f.integer("vocab_size", d.vocab_size);
  c.width = f.integer("hidden_size", d.width);
  c.max_length = f.integer("max_position_embeddings", d.max_length);
  c.decoder_layers = f.integer("num_hidden_layers", d.layers);
  if (c.decoder_layers < 0 || c.decoder_layers > 100000) f.wrong("num_hidden_layers", "0 to 100000 layers");
  c.positions = Positions::rope;
  c.final_norm = true;
  c.tied_embeddings = f.flag("tie_word_embeddings", false);
  c.attention_dropout = f.number("attention_dropout", 0);
  c.init = Init::normal;
  c.init_std = f.number("initializer_range", 0.02);
  // An id of these that the vocabulary lacks is no matter to the families' own code.
  const auto known = [&](int64_t id) { return id < c.vocab_size ? id : -1; };
  c.bos_id = known(d.bos_id);
  if (known(d.eos_id) >= 0) c.eos_ids = {d.eos_id};
  c.pad_id = known(d.pad_id);
  read_ids(f, c);
  c.pad_untrained = c.pad_id >= 0;

  LayerConfig& l = c.layer;
  l.placement = Placement::pre_norm;
  l.norm = NormKind::rms_norm;
  l.norm_eps = f.number("rms_norm_eps", d.norm_eps);
  l.heads = f.integer("num_attention_heads", d.heads);
  l.kv_heads = f.says_none("num_key_value_heads") ? 0 : f.integer("num_key_value_heads", d.kv_heads);
  l.head_dim = f.says_none("head_dim") ? 0 : f.integer("head_dim", d.head_dim);
  l.rope = read_rope(f, d.rope);
  if (l.rope.fraction != 1) {
    throw Error(ErrorKind::unsupported,
                fmt::format("{}: partial_rotary_factor {} is not supported; {} turns whole heads", f.name(),
                            l.rope.fraction, d.type));
  }
  l.ffn_width = f.integer("intermediate_size", d.ffn_width);
  l.activation = activation_named(f, "hidden_act", "silu");
  l.gated = true;
  return c;
}

void write_decoder(const ModelConfig& c, const LayerConfig& l, JsonObject j) {
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
  write_rope(l.rope, j);
  j["tie_word_embeddings"] = c.tied_embeddings;
  j["attention_dropout"] = c.attention_dropout;
  j["initializer_range"] = c.init_std;
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

}  // namespace plumb
