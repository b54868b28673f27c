#include "model/llama_kin.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/decoder_fields.h"
#include "nn/rotary.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr int64_t kDynamicReach = 8;  // lengths of its training that a model with a dynamic base reads

bool flag_of(const JsonFields& f, const char* key, bool absent) {
  return key ? f.flag(key, absent) : absent;
}

// A default id that the vocabulary lacks, which is no matter to the family's own implementation, is none.
int64_t known(int64_t id, int64_t vocabulary) {
  return id < vocabulary ? id : -1;
}

std::vector<double> numbers(const JsonFields& f, const char* key) {
  const Json& list = f.raw(key);
  if (!list.is_array()) f.wrong(key, "a list of numbers");
  std::vector<double> result;
  result.reserve(list.size());
  for (const Json& item : list) {
    if (!item.is_number()) f.wrong(key, "a list of numbers");
    result.push_back(item.get<double>());
  }
  return result;
}

double number_or(const JsonFields& f, const char* key, double zero_or_absent) {
  const double value = f.number(key, 0);
  return value != 0 ? value : zero_or_absent;
}

// What lengthens by a ratio has it from the two lengths where no factor is said.
double factor_of(const JsonFields& f, const JsonFields& rope, int64_t original) {
  const auto longest = f.optional_integer("max_position_embeddings");
  const bool both = longest && original > 0;
  return rope.number("factor", both ? static_cast<double>(*longest) / static_cast<double>(original) : 1);
}

void read_scaling(const JsonFields& f, const JsonFields& rope, const std::string& type, RopeConfig& r) {
  const int64_t original =
      f.integer("original_max_position_embeddings", rope.integer("original_max_position_embeddings", 0));
  if (type == "linear" || type == "dynamic") {
    r.scaling = type == "linear" ? RopeScaling::linear : RopeScaling::dynamic;
    r.factor = rope.number("factor", 1);
    return;
  }
  r.original_length = original;
  r.factor = factor_of(f, rope, original);
  r.attention_factor = rope.number("attention_factor", 0);
  if (type == "llama3") {
    r.scaling = RopeScaling::llama3;
    r.attention_factor = 0;
    r.low_frequency = rope.number("low_freq_factor", r.low_frequency);
    r.high_frequency = rope.number("high_freq_factor", r.high_frequency);
  } else if (type == "longrope" || type == "su" || rope.has("short_factor")) {  // Phi-3's three names
    r.scaling = RopeScaling::longrope;
    r.short_factors = numbers(rope, "short_factor");
    r.long_factors = numbers(rope, "long_factor");
  } else if (type == "yarn") {
    r.scaling = RopeScaling::yarn;
    r.beta_fast = number_or(rope, "beta_fast", r.beta_fast);
    r.beta_slow = number_or(rope, "beta_slow", r.beta_slow);
    r.truncate = rope.flag("truncate", true);
    const double m = rope.number("mscale", 0), all = rope.number("mscale_all_dim", 0);
    if (r.attention_factor == 0 && m != 0 && all != 0)
      r.attention_factor = yarn_mscale(r.factor, m) / yarn_mscale(r.factor, all);
  } else {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("{}: rope_type \"{}\" is not supported; plumb has default, linear, dynamic, yarn, "
                    "longrope and llama3",
                    f.name(), type));
  }
}

std::string_view scaling_name(RopeScaling s) {
  constexpr std::string_view names[] = {"default", "linear", "dynamic", "yarn", "longrope", "llama3"};
  return names[static_cast<size_t>(s)];
}

}  // namespace

RopeConfig read_rope_object(const JsonFields& f, const JsonFields& rope, double base) {
  RopeConfig r;
  r.base = rope.number("rope_theta", base);
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  if (type != "default") read_scaling(f, rope, type, r);
  return r;
}

JsonFields rope_fields(const JsonFields& f) {
  const bool before = f.has("rope_scaling") && !f.raw("rope_scaling").empty();
  return f.object(before ? "rope_scaling" : "rope_parameters");
}

RopeConfig read_rope(const JsonFields& f, double base, double fraction) {
  const JsonFields rope = rope_fields(f);
  RopeConfig r = read_rope_object(f, rope, f.number("rope_theta", base));
  constexpr const char* kFraction = "partial_rotary_factor";
  if (fraction == 0) {
    refuse_unless(rope, kFraction, 1.0);
    refuse_unless(f, kFraction, 1.0);
  } else {
    r.fraction = rope.number(kFraction, f.number(kFraction, fraction));
  }
  return r;
}

void write_rope_object(const RopeConfig& r, JsonObject o) {
  o["rope_theta"] = r.base;
  o["rope_type"] = scaling_name(r.scaling);
  if (r.query_growth != 0) {
    o["llama_4_scaling_beta"] = r.query_growth;
    o["original_max_position_embeddings"] = r.original_length;
  }
  if (r.scaling == RopeScaling::none) return;
  o["factor"] = r.factor;
  if (r.scaling == RopeScaling::linear || r.scaling == RopeScaling::dynamic) return;
  o["original_max_position_embeddings"] = r.original_length;
  if (r.scaling == RopeScaling::llama3) {
    o["low_freq_factor"] = r.low_frequency;
    o["high_freq_factor"] = r.high_frequency;
    return;
  }
  if (r.attention_factor != 0) o["attention_factor"] = r.attention_factor;
  if (r.scaling == RopeScaling::longrope) {
    o["short_factor"] = r.short_factors;
    o["long_factor"] = r.long_factors;
    return;
  }
  o["beta_fast"] = r.beta_fast;
  o["beta_slow"] = r.beta_slow;
  o["truncate"] = r.truncate;
  if (r.mscale != 0) o["mscale"] = r.mscale;
  if (r.mscale_all != 0) o["mscale_all_dim"] = r.mscale_all;
}

void write_rope(const RopeConfig& r, JsonObject j, bool fraction) {
  const auto fill = [&](JsonObject o) {
    write_rope_object(r, o);
    if (fraction) o["partial_rotary_factor"] = r.fraction;
  };
  j["rope_theta"] = r.base;
  if (fraction) j["partial_rotary_factor"] = r.fraction;
  j["rope_scaling"] = nullptr;
  fill(j.object("rope_parameters"));
  if (r.scaling == RopeScaling::none && r.query_growth == 0) return;
  JsonObject before = j.object("rope_scaling");
  before["type"] = scaling_name(r.scaling);
  fill(before);
}

ModelConfig read_llama_kin(const JsonFields& f, const LlamaKin& kin) {
  ModelConfig c{.model_type = std::string(kin.type)};
  c.vocab_size = f.integer("vocab_size", kin.vocab_size);
  c.width = f.integer("hidden_size", kin.width);
  c.max_length = f.integer("max_position_embeddings", kin.max_length);
  c.decoder_layers = f.integer("num_hidden_layers", kin.layers);
  c.positions = Positions::rope;
  c.final_norm = true;
  c.tied_embeddings = f.flag("tie_word_embeddings", kin.tied);
  c.attention_dropout = f.number("attention_dropout", 0);
  c.init = Init::normal;
  c.init_std = f.number("initializer_range", 0.02);
  c.bos_id = known(kin.bos, c.vocab_size);
  if (kin.eos >= 0 && kin.eos < c.vocab_size) c.eos_ids = {kin.eos};
  c.pad_id = known(kin.pad, c.vocab_size);
  read_ids(f, c);
  c.pad_untrained = c.pad_id >= 0;

  LayerConfig& l = c.layer;
  l.placement = Placement::pre_norm;
  l.norm = NormKind::rms_norm;
  l.norm_eps = kin.eps_key ? f.number(kin.eps_key, kin.eps) : kin.eps;
  l.heads = f.integer("num_attention_heads", kin.heads);
  l.kv_heads = f.integer_or_none("num_key_value_heads", kin.kv_heads);
  l.head_dim = f.integer_or_none("head_dim", kin.head_dim);
  l.attention_bias = flag_of(f, kin.attention_bias_key, kin.attention_bias);
  l.attention_output_bias = flag_of(f, kin.output_bias_key, false);
  l.ffn_width = f.integer("intermediate_size", kin.ffn_width);
  l.activation = activation_named(f, kin.activation_key, kin.activation);
  l.gated = true;
  l.ffn_bias = flag_of(f, kin.ffn_bias_key, false);
  if (kin.rope_by_layer) return c;
  l.rope = read_rope(f, kin.rope_base, kin.rope_fraction);
  if (l.rope.scaling == RopeScaling::dynamic) {  // which goes on beyond the length of its training
    l.rope.original_length = c.max_length;
    c.max_length *= kDynamicReach;
  }
  return c;
}

void write_llama_kin(const ModelConfig& c, const LlamaKin& kin, JsonObject j) {
  const LayerConfig l = resolved_layer(c, Side::decoder, 0);
  j["vocab_size"] = c.vocab_size;
  j["hidden_size"] = c.width;
  const bool dynamic = l.rope.scaling == RopeScaling::dynamic;
  j["max_position_embeddings"] = dynamic ? l.rope.original_length : c.max_length;
  j["num_hidden_layers"] = c.decoder_layers;
  j["num_attention_heads"] = l.heads;
  j["num_key_value_heads"] = l.kv_heads;
  j["head_dim"] = l.head_dim;
  j["intermediate_size"] = l.ffn_width;
  j[kin.activation_key] = activation_name(l.activation);
  if (kin.eps_key) j[kin.eps_key] = l.norm_eps;
  if (kin.attention_bias_key) j[kin.attention_bias_key] = l.attention_bias;
  if (kin.output_bias_key) j[kin.output_bias_key] = l.attention_output_bias;
  if (kin.ffn_bias_key) j[kin.ffn_bias_key] = l.ffn_bias;
  if (!kin.rope_by_layer) write_rope(l.rope, j, kin.rope_fraction != 0);
  j["tie_word_embeddings"] = c.tied_embeddings;
  j["attention_dropout"] = c.attention_dropout;
  j["initializer_range"] = c.init_std;
  write_ids(c, j);
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

int64_t write_windows(const ModelConfig& c, JsonObject j) {
  int64_t any = 0;
  for (int64_t i = 0; i < c.decoder_layers; ++i)
    any = std::max(any, layer_config(c, Side::decoder, i).window);
  j["sliding_window"] = nullptr;
  if (any > 0) j["sliding_window"] = any;
  write_sliding(c, j);
  return any;
}

double inverse(double x) {
  const double y = 1 / x;
  for (const double near : {std::nextafter(y, 0), std::nextafter(y, INFINITY)}) {
    if (1 / y != x && 1 / near == x) return near;
  }
  return y;
}

}  // namespace plumb
