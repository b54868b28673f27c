#include "model/rope_fields.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plumb/config_fields.h"
#include "plumb/error.h"

namespace plumb {
namespace {

std::vector<double> numbers(const JsonFields& f, const char* key) {
  const Json& list = f.raw(key);
  if (list.is_null()) return {};
  if (!list.is_array()) f.wrong(key, "a list of numbers");
  std::vector<double> values;
  values.reserve(list.size());
  for (const Json& value : list) {
    if (!value.is_number()) f.wrong(key, "a list of numbers");
    values.push_back(value.get<double>());
  }
  return values;
}

RopeScaling scaling_named(const JsonFields& f, const std::string& type) {
  if (type == "default") return RopeScaling::none;
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

void write_object(const RopeConfig& c, JsonObject rope) {
  rope["rope_theta"] = c.base;
  if (c.fraction != 1) rope["partial_rotary_factor"] = c.fraction;
  const bool scaled = c.scaling != RopeScaling::none;
  rope["rope_type"] = scaled ? enum_name(c.scaling) : "default";
  if (!scaled) return;
  rope["factor"] = c.factor;
  if (c.scaling == RopeScaling::linear || c.scaling == RopeScaling::dynamic) return;
  if (c.original_length > 0) rope["original_max_position_embeddings"] = c.original_length;
  if (c.attention_factor != 0) rope["attention_factor"] = c.attention_factor;
  if (c.scaling == RopeScaling::yarn) {
    rope["beta_fast"] = c.beta_fast;
    rope["beta_slow"] = c.beta_slow;
    rope["truncate"] = c.truncate;
    if (c.mscale != 0) rope["mscale"] = c.mscale;
    if (c.mscale_all != 0) rope["mscale_all_dim"] = c.mscale_all;
  }
  if (c.scaling == RopeScaling::longrope) {
    rope["short_factor"] = c.short_factors;
    rope["long_factor"] = c.long_factors;
  }
  if (c.scaling == RopeScaling::llama3) {
    rope["low_freq_factor"] = c.low_frequency;
    rope["high_freq_factor"] = c.high_frequency;
  }
}

}  // namespace

RopeConfig read_rope(const JsonFields& f, const RopeConfig& absent) {
  // The older key rules where both are there.
  const bool older = f.raw("rope_scaling").is_object() && !f.raw("rope_scaling").empty();
  const JsonFields rope = f.object(older ? "rope_scaling" : "rope_parameters");
  RopeConfig c;
  if (!older && !f.has("rope_parameters")) c = absent;
  c.interleaved = absent.interleaved;
  c.base = rope.number("rope_theta", f.number("rope_theta", absent.base));
  c.fraction = rope.number("partial_rotary_factor", f.number("partial_rotary_factor", absent.fraction));
  if (!older && !f.has("rope_parameters")) return c;
  c.scaling = scaling_named(f, rope.text("rope_type", rope.text("type", "default")));
  if (c.scaling == RopeScaling::none) return c;
  c.factor = rope.number("factor", 1);
  switch (c.scaling) {
    case RopeScaling::yarn:
      c.beta_fast = number_or(rope, "beta_fast", c.beta_fast);
      c.beta_slow = number_or(rope, "beta_slow", c.beta_slow);
      c.truncate = rope.flag("truncate", true);
      c.mscale = rope.number("mscale", 0);
      c.mscale_all = rope.number("mscale_all_dim", 0);
      break;
    case RopeScaling::longrope:
      c.short_factors = numbers(rope, "short_factor");
      c.long_factors = numbers(rope, "long_factor");
      break;
    case RopeScaling::llama3:
      c.low_frequency = rope.number("low_freq_factor", c.low_frequency);
      c.high_frequency = rope.number("high_freq_factor", c.high_frequency);
      break;
    default:
      return c;
  }
  c.attention_factor = rope.number("attention_factor", 0);
  c.original_length = f.integer("original_max_position_embeddings",
                                rope.integer("original_max_position_embeddings", c.original_length));
  return c;
}

void write_rope(const RopeConfig& c, JsonObject out) {
  out["rope_theta"] = c.base;
  if (c.fraction != 1) out["partial_rotary_factor"] = c.fraction;
  out["rope_scaling"] = nullptr;
  write_object(c, out.object("rope_parameters"));
  if (c.scaling == RopeScaling::none) return;
  write_object(c, out.object("rope_scaling"));
  out.object("rope_scaling")["type"] = enum_name(c.scaling);
}

}  // namespace plumb
