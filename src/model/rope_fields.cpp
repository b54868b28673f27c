#include "model/rope_fields.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "nn/rotary.h"
#include "plumb/config_fields.h"
#include "plumb/error.h"

namespace plumb {
namespace {

// The older key rules where both are there.
bool is_older(const JsonFields& f) {
  return f.has("rope_scaling") && !f.raw("rope_scaling").empty();
}

RopeScaling scaling_named(const JsonFields& f, const JsonFields& rope) {
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  if (type == "default") return RopeScaling::none;
  // The two names that Phi-3's files had for it before.
  if (type == "su" || (type == "yarn" && rope.has("short_factor"))) return RopeScaling::longrope;
  const auto& names = EnumNames<RopeScaling>::names;
  for (size_t i = 1; i < names.size(); ++i) {
    if (type == names[i]) return static_cast<RopeScaling>(i);
  }
  throw Error(ErrorKind::unsupported,
              fmt::format("{}: rope_type \"{}\" is not supported; plumb has default, linear, dynamic, yarn, "
                          "longrope and llama3",
                          f.name(), type));
}

// 0 and null say "as usual".
double number_or(const JsonFields& f, const char* key, double usual) {
  const double value = f.number(key, 0);
  return value == 0 ? usual : value;
}

// What lengthens by a ratio has it from the two lengths where no factor is said.
double factor_of(const JsonFields& f, const JsonFields& rope, int64_t original) {
  const auto longest = f.optional_integer("max_position_embeddings");
  const bool both = longest && original > 0;
  return rope.number("factor", both ? static_cast<double>(*longest) / static_cast<double>(original) : 1);
}

void read_yarn(const JsonFields& rope, RopeConfig& c) {
  c.beta_fast = number_or(rope, "beta_fast", c.beta_fast);
  c.beta_slow = number_or(rope, "beta_slow", c.beta_slow);
  c.truncate = rope.flag("truncate", true);
  const double m = rope.number("mscale", 0), all = rope.number("mscale_all_dim", 0);
  if (c.attention_factor == 0 && m != 0 && all != 0)
    c.attention_factor = yarn_mscale(c.factor, m) / yarn_mscale(c.factor, all);
}

}  // namespace

JsonFields rope_object(const JsonFields& f) {
  return f.object(is_older(f) ? "rope_scaling" : "rope_parameters");
}

RopeConfig read_rope_object(const JsonFields& f, const JsonFields& rope, const RopeConfig& absent) {
  RopeConfig c{.base = rope.number("rope_theta", absent.base),
               .fraction = absent.fraction,
               .interleaved = absent.interleaved,
               .scaling = scaling_named(f, rope)};
  if (c.scaling == RopeScaling::none) return c;
  if (c.scaling == RopeScaling::linear || c.scaling == RopeScaling::dynamic) {
    c.factor = rope.number("factor", 1);
    return c;
  }
  c.original_length =
      f.integer("original_max_position_embeddings", rope.integer("original_max_position_embeddings", 0));
  c.factor = factor_of(f, rope, c.original_length);
  if (c.scaling == RopeScaling::llama3) {
    c.low_frequency = rope.number("low_freq_factor", c.low_frequency);
    c.high_frequency = rope.number("high_freq_factor", c.high_frequency);
    return c;
  }
  c.attention_factor = rope.number("attention_factor", 0);
  if (c.scaling == RopeScaling::yarn) read_yarn(rope, c);
  if (c.scaling == RopeScaling::longrope) {
    c.short_factors = rope.numbers("short_factor");
    c.long_factors = rope.numbers("long_factor");
  }
  return c;
}

RopeConfig read_rope(const JsonFields& f, const RopeConfig& absent) {
  RopeConfig usual = absent;
  usual.base = f.number("rope_theta", absent.base);
  return is_older(f) || f.has("rope_parameters") ? read_rope_object(f, rope_object(f), usual) : usual;
}

void write_rope_object(const RopeConfig& c, JsonObject rope) {
  rope["rope_theta"] = c.base;
  if (c.fraction != 1) rope["partial_rotary_factor"] = c.fraction;
  rope["rope_type"] = c.scaling == RopeScaling::none ? "default" : enum_name(c.scaling);
  if (c.query_growth != 0) {
    rope["llama_4_scaling_beta"] = c.query_growth;
    rope["original_max_position_embeddings"] = c.original_length;
  }
  if (c.scaling == RopeScaling::none) return;
  rope["factor"] = c.factor;
  if (c.scaling == RopeScaling::linear || c.scaling == RopeScaling::dynamic) return;
  rope["original_max_position_embeddings"] = c.original_length;
  if (c.scaling == RopeScaling::llama3) {
    rope["low_freq_factor"] = c.low_frequency;
    rope["high_freq_factor"] = c.high_frequency;
    return;
  }
  if (c.attention_factor != 0) rope["attention_factor"] = c.attention_factor;
  if (c.scaling == RopeScaling::longrope) {
    rope["short_factor"] = c.short_factors;
    rope["long_factor"] = c.long_factors;
    return;
  }
  rope["beta_fast"] = c.beta_fast;
  rope["beta_slow"] = c.beta_slow;
  rope["truncate"] = c.truncate;
  if (c.mscale != 0) rope["mscale"] = c.mscale;
  if (c.mscale_all != 0) rope["mscale_all_dim"] = c.mscale_all;
}

void write_rope(const RopeConfig& c, JsonObject out) {
  out["rope_theta"] = c.base;
  if (c.fraction != 1) out["partial_rotary_factor"] = c.fraction;
  out["rope_scaling"] = nullptr;
  write_rope_object(c, out.object("rope_parameters"));
  if (c.scaling == RopeScaling::none && c.query_growth == 0) return;
  JsonObject older = out.object("rope_scaling");
  older["type"] = c.scaling == RopeScaling::none ? "default" : enum_name(c.scaling);
  write_rope_object(c, older);
}

}  // namespace plumb
