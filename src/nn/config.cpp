// The values that a config implies: derived sizes, the sub-layer formula by placement and depth, inits.
#include <cmath>

#include <fmt/format.h>

#include "nn/depth.h"
#include "plumb/config.h"

namespace plumb {
namespace {

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

// T-Fixup, Huang 2020: the gain of V, output and feed-forward matrices.
double t_fixup_gain(const ModelConfig& c, Side side) {
  const double l = static_cast<double>(layers_of(c, side));
  return side == Side::encoder ? 0.67 * std::pow(l, -0.25) : std::pow(9 * l, -0.25);
}

// Residual branches of a stack.
double branches_of(const ModelConfig& c, Side side) {
  return static_cast<double>(sublayers_of_layer(c, side) * layers_of(c, side));
}

double depth_ratio(const ModelConfig& c, Side side) {
  return c.base_layers == 0 ? 1
                            : static_cast<double>(layers_of(c, side)) / static_cast<double>(c.base_layers);
}

struct Place {
  Side side;
  int64_t index;
  SublayerPart part;
};

SublayerFormula by_placement(const ModelConfig& c, const Place& at, Placement placement) {
  const auto [side, index, part] = at;
  const bool transforms = part == SublayerPart::feed_forward;
  switch (placement) {
    case Placement::post_norm:
      return {.norm_out = true};
    case Placement::pre_norm:
      return {.norm_in = true};
    case Placement::deep_norm: {
      const DepthScale scale = deep_norm_scale(c, side);
      return {.norm_out = true, .alpha = scale.alpha, .beta = scale.beta};
    }
    case Placement::sandwich:
      return {.norm_in = true, .norm_branch = true};
    case Placement::reordered:
      return {.norm_branch = true};
    case Placement::re_zero:
      return {.gate = GateKind::scalar, .gate_value = 0};
    case Placement::layer_scale:
      return {.norm_in = true, .gate = GateKind::vector, .gate_value = layer_scale_start(layers_of(c, side))};
    case Placement::layer_norm_scaling:
      return {.norm_in = true, .s = 1 / std::sqrt(static_cast<double>(index + 1))};
    case Placement::sub_ln:
      return {.norm_in = true, .norm_inner = true, .beta = sub_ln_gain(c, side)};
    case Placement::plain:
      return {.norm_in = true, .alpha = 0};
    case Placement::mix_ln:
      return by_placement(c, at, index < layers_of(c, side) / 4 ? Placement::post_norm : Placement::pre_norm);
    case Placement::normformer:
      return {
          .norm_in = true, .norm_inner = transforms, .norm_branch = !transforms, .head_scale = !transforms};
    case Placement::admin:
      return {.norm_out = true, .shortcut = GateKind::vector, .profiled = true};
    case Placement::fixup:  // its norms are shifts
      return {.norm_in = true,
              .norm_inner = true,
              .norm_branch = true,
              .gate = GateKind::scalar,
              .beta = std::pow(branches_of(c, side), -0.5),
              .output_gain = 0};
    case Placement::t_fixup:
      return {.beta = t_fixup_gain(c, side)};
    case Placement::resi_dual:
      return {.norm_out = true, .dual = 1};
    case Placement::ngpt:
      return {
          .norm_branch = true, .norm_out = true, .gate = GateKind::vector, .gate_value = 0.05, .unit = true};
    case Placement::hyper_connections:
      return {.norm_in = true, .mixing = Mixing::free};
    case Placement::mhc:
      return {.norm_in = true, .mixing = Mixing::doubly_stochastic};
  }
  return {};
}

std::string factor(double v) {
  return v == 1 ? "" : fmt::format("{:.4g} ", v);
}
// "0.5 x"; with a learned factor "g x", or "g * x" where it is a vector.
std::string times(GateKind kind, double value, const char* name, const std::string& x) {
  if (kind == GateKind::constant) return factor(value) + x;
  return fmt::format("{} {}{}", name, kind == GateKind::vector ? "* " : "", x);
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
  if (c.value_dim == 0) c.value_dim = c.head_dim;
  if (c.rope.original_length == 0) c.rope.original_length = config.max_length;
  if (c.ffn_width == 0) {
    c.ffn_width = c.gated ? (config.width * 8 / 3 + 63) / 64 * 64 : 4 * config.width;
  }
  if (c.shared_width == 0) c.shared_width = c.ffn_width;
  if (c.placement == Placement::fixup && c.norm != NormKind::none) c.norm = NormKind::shift;
  if (c.placement == Placement::ngpt) {  // ScaleNorm without its gain is x / |x|
    c.norm = NormKind::scale_norm;
    c.norm_affine = false;
    c.qk_norm = QkNorm::per_head;
    if (c.attention_scale == 0) c.attention_scale = std::sqrt(static_cast<double>(c.head_dim));
  }
  return c;
}

SublayerFormula sublayer_formula(const ModelConfig& config, Side side, int64_t index, SublayerPart part) {
  const LayerConfig& c = layer_config(config, side, index);
  SublayerFormula f = by_placement(config, {side, index, part}, c.placement);
  f.norm_in = c.norm_in.value_or(f.norm_in);
  f.norm_inner = c.norm_inner.value_or(f.norm_inner);
  f.norm_branch = c.norm_branch.value_or(f.norm_branch);
  f.norm_out = c.norm_out.value_or(f.norm_out);
  f.alpha = c.alpha.value_or(f.alpha);
  f.s = c.s.value_or(f.s);
  f.gate = c.gate.value_or(f.gate);
  f.gate_value = c.gate_value.value_or(f.gate_value);
  f.shortcut = c.shortcut.value_or(f.shortcut);
  f.profiled = f.profiled && !c.alpha && f.shortcut != GateKind::constant;
  f.head_scale = c.head_scale.value_or(f.head_scale) && part != SublayerPart::feed_forward;
  f.dual = c.dual.value_or(f.dual);
  f.mixing = c.mixing.value_or(f.mixing);
  f.streams = f.mixing == Mixing::none ? 1 : c.streams;
  f.reparam = c.reparam;
  f.gate_value *= std::pow(depth_ratio(config, side), -config.depth_alpha);
  if (c.norm == NormKind::none) f.norm_in = f.norm_inner = f.norm_branch = f.norm_out = false;
  return f;
}

std::string SublayerFormula::str() const {
  const bool mixes = mixing != Mixing::none;
  const std::string input = wrapped(norm_in, mixes ? "H_pre x" : "x");
  const std::string branch =
      times(gate, gate_value, "g", wrapped(norm_branch, fmt::format("F({}{})", factor(s), input)));
  const bool cut = shortcut == GateKind::constant && alpha == 0;
  const std::string kept = unit ? "(1 - g) * x" : times(shortcut, alpha, "a", "x");
  const std::string sum = cut ? branch : fmt::format("{} + {}", kept, branch);
  const std::string second = dual == 0 ? "" : fmt::format(", r' = r + {}{}", factor(dual), branch);
  const char* const matrices = reparam == Reparam::sigma ? ", each W of F as gamma W / sigma(W)" : "";
  if (mixes) return fmt::format("y = H_res x + H_post {}, {} streams{}", branch, streams, matrices);
  return "y = " + wrapped(norm_out, sum) + second + matrices;
}

Init init_of(const ModelConfig& config) {
  if (config.init) return *config.init;
  switch (config.layer.placement) {
    case Placement::deep_norm:
    case Placement::sub_ln:
    case Placement::post_norm:
    case Placement::admin:
    case Placement::fixup:
    case Placement::t_fixup:
    case Placement::resi_dual:
      return Init::xavier;
    case Placement::pre_norm:
    case Placement::normformer:
    case Placement::hyper_connections:
    case Placement::mhc:
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

double embedding_std(const ModelConfig& config, Side side) {
  if (config.layer.placement != Placement::t_fixup || config.init) return config.init_std;
  // N(0, 1 / sqrt(C)), and (9 L)^(-1/4) as the branches; a table that both stacks read is the encoder's.
  const double width = static_cast<double>(config.width),
               layers = static_cast<double>(layers_of(config, side));
  return std::pow(width, -0.5) * std::pow(9 * layers, -0.25);
}

double head_std(const ModelConfig& config) {
  return config.layer.placement == Placement::fixup && !config.init ? 0 : config.init_std;
}

double width_ratio(const ModelConfig& config) {
  return config.base_width == 0 ? 1
                                : static_cast<double>(config.width) / static_cast<double>(config.base_width);
}

ParameterScales scales_of(const ModelConfig& config, Side side, bool matrix) {
  const double depth = depth_ratio(config, side), width = width_ratio(config);
  const double lr = std::pow(depth, config.depth_alpha - 1);
  return {.lr = matrix ? lr / width : lr,
          .weight_decay = matrix ? width : 1,
          .eps = std::pow(depth, -config.depth_alpha) / width};
}

bool has_final_norm(const ModelConfig& config, Side side) {
  const int64_t layers = layers_of(config, side);
  const int64_t last = std::max<int64_t>(0, layers - 1);
  const LayerConfig c = resolved_layer(config, side, last);
  if (c.norm == NormKind::none) return false;
  if (config.final_norm) return *config.final_norm;
  const SublayerFormula f = sublayer_formula(config, side, last, SublayerPart::feed_forward);
  if (f.dual != 0) return true;  // it is the second stream's
  const bool normless = c.placement == Placement::re_zero || c.placement == Placement::t_fixup;
  return !f.norm_out && !normless && c.norm != NormKind::shift;
}

}  // namespace plumb
