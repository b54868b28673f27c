// The values that a config implies: derived sizes, the sub-layer formula by placement and depth, inits.
#include <cmath>

#include <fmt/format.h>

#include "plumb/config.h"

namespace plumb {
namespace {

int64_t layers_of(const ModelConfig& c, Side side) {
  return side == Side::encoder ? c.encoder_layers : c.decoder_layers;
}

struct DepthScale {
  double alpha = 1, beta = 1;
};

// DeepNorm, 2203.00555 table 1: of encoder-only, decoder-only, and both sides of an encoder-decoder.
DepthScale deep_norm_scale(const ModelConfig& c, Side side) {
  const double n = static_cast<double>(c.encoder_layers), m = static_cast<double>(c.decoder_layers);
  if (!c.has_encoder() || !c.has_decoder()) {
    const double l = c.has_encoder() ? n : m;
    return {std::pow(2 * l, 0.25), std::pow(8 * l, -0.25)};
  }
  if (side == Side::decoder) return {std::pow(3 * m, 0.25), std::pow(12 * m, -0.25)};
  const double k = std::pow(std::pow(n, 4) * m, 1.0 / 16);
  return {0.81 * k, 0.87 / k};
}

// Sub-LN, 2210.06423: the gain of V, output and feed-forward matrices.
double sub_ln_gain(const ModelConfig& c, Side side) {
  const double n = static_cast<double>(c.encoder_layers), m = static_cast<double>(c.decoder_layers);
  if (!c.has_encoder() || !c.has_decoder()) return std::sqrt(std::log(2 * (c.has_encoder() ? n : m)));
  if (side == Side::decoder) return std::sqrt(std::log(3 * m));
  return std::sqrt(std::log(3 * m) * std::log(2 * n) / 3);
}

// LayerScale starts smaller the deeper the stack (2103.17239).
double layer_scale_start(int64_t layers) {
  return layers <= 18 ? 0.1 : layers <= 24 ? 1e-5 : 1e-6;
}

SublayerFormula by_placement(const ModelConfig& c, Side side, int64_t index, Placement placement) {
  SublayerFormula f;
  switch (placement) {
    case Placement::post_norm:
      f.norm_out = true;
      break;
    case Placement::pre_norm:
      f.norm_in = true;
      break;
    case Placement::deep_norm: {
      const DepthScale scale = deep_norm_scale(c, side);
      f.norm_out = true;
      f.alpha = scale.alpha;
      f.beta = scale.beta;
      break;
    }
    case Placement::sandwich:
      f.norm_in = f.norm_branch = true;
      break;
    case Placement::reordered:
      f.norm_branch = true;
      break;
    case Placement::re_zero:
      f.gate = GateKind::scalar;
      f.gate_value = 0;
      break;
    case Placement::layer_scale:
      f.norm_in = true;
      f.gate = GateKind::vector;
      f.gate_value = layer_scale_start(layers_of(c, side));
      break;
    case Placement::layer_norm_scaling:
      f.norm_in = true;
      f.s = 1 / std::sqrt(static_cast<double>(index + 1));
      break;
    case Placement::sub_ln:
      f.norm_in = f.norm_inner = true;
      f.beta = sub_ln_gain(c, side);
      break;
    case Placement::plain:
      f.norm_in = true;
      f.alpha = 0;
      break;
  }
  return f;
}

std::string factor(double v) {
  return v == 1 ? "" : fmt::format("{:.4g} ", v);
}
std::string wrapped(bool norm, const std::string& x) {
  return norm ? "N(" + x + ")" : x;
}

}  // namespace

const LayerConfig& layer_config(const ModelConfig& config, Side side, int64_t index) {
  for (const LayerRun& run : side == Side::encoder ? config.encoder_runs : config.decoder_runs) {
    if (index >= run.first && index < run.first + run.count) return run.layer;
  }
  return config.layer;
}

LayerConfig resolved_layer(const ModelConfig& config, Side side, int64_t index) {
  LayerConfig c = layer_config(config, side, index);
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  if (c.head_dim == 0 && c.heads > 0) c.head_dim = config.width / c.heads;
  if (c.ffn_width == 0) {
    c.ffn_width = c.gated ? (config.width * 8 / 3 + 63) / 64 * 64 : 4 * config.width;
  }
  return c;
}

SublayerFormula sublayer_formula(const ModelConfig& config, Side side, int64_t index) {
  const LayerConfig& c = layer_config(config, side, index);
  SublayerFormula f = by_placement(config, side, index, c.placement);
  f.norm_in = c.norm_in.value_or(f.norm_in);
  f.norm_inner = c.norm_inner.value_or(f.norm_inner);
  f.norm_branch = c.norm_branch.value_or(f.norm_branch);
  f.norm_out = c.norm_out.value_or(f.norm_out);
  f.alpha = c.alpha.value_or(f.alpha);
  f.s = c.s.value_or(f.s);
  f.gate = c.gate.value_or(f.gate);
  f.gate_value = c.gate_value.value_or(f.gate_value);
  if (c.norm == NormKind::none) f.norm_in = f.norm_inner = f.norm_branch = f.norm_out = false;
  return f;
}

std::string SublayerFormula::str() const {
  const std::string input = wrapped(norm_in, "x");
  const std::string branch = wrapped(norm_branch, fmt::format("F({}{})", factor(s), input));
  const std::string g = gate == GateKind::constant ? factor(gate_value)
                        : gate == GateKind::scalar ? "g "
                                                   : "g * ";
  const std::string sum = alpha == 0 ? g + branch : fmt::format("{}x + {}{}", factor(alpha), g, branch);
  return "y = " + wrapped(norm_out, sum);
}

Init init_of(const ModelConfig& config) {
  if (config.init) return *config.init;
  switch (config.layer.placement) {
    case Placement::deep_norm:
    case Placement::sub_ln:
    case Placement::post_norm:
      return Init::xavier;
    case Placement::pre_norm:
      return Init::scaled_normal;
    default:
      return Init::normal;
  }
}

double output_scale(const ModelConfig& config) {
  if (init_of(config) != Init::scaled_normal) return 1;
  const int64_t layers = std::max<int64_t>(1, std::max(config.encoder_layers, config.decoder_layers));
  return 1 / std::sqrt(2.0 * static_cast<double>(layers));
}

bool has_final_norm(const ModelConfig& config, Side side) {
  const int64_t layers = layers_of(config, side);
  const int64_t last = std::max<int64_t>(0, layers - 1);
  if (layer_config(config, side, last).norm == NormKind::none) return false;
  if (config.final_norm) return *config.final_norm;
  const SublayerFormula f = sublayer_formula(config, side, last);
  return !f.norm_out && layer_config(config, side, last).placement != Placement::re_zero;
}

}  // namespace plumb
