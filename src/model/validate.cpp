// What a config must satisfy, field by field.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "nn/rotary.h"
#include "plumb/config.h"
#include "plumb/config_fields.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr int64_t kMostLayers = 100000, kMostWidth = 1 << 20;

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorKind::config, message);
}

void positive(const char* name, int64_t value) {
  if (value <= 0) fail(fmt::format("{} is {}, and has to be at least 1", name, value));
}
void not_negative(const char* name, int64_t value) {
  if (value < 0) fail(fmt::format("{} is {}, and can't be negative", name, value));
}
void at_most(const char* name, int64_t value, int64_t most) {
  if (value > most) fail(fmt::format("{} is {}, more than the {} that is supported", name, value, most));
}
void probability(const char* name, double value) {
  if (!(value >= 0 && value < 1)) fail(fmt::format("{} is {}, and has to be in [0, 1)", name, value));
}

// Of what is computed with in f32.
void in_range(const std::string& name, double value) {
  if (!(std::abs(value) <= 1e30))
    fail(fmt::format("{} is {}, and has to be of a size up to 1e30", name, value));
}

void validate_attention(const ModelConfig& config, const LayerConfig& given, const LayerConfig& c,
                        const std::string& at) {
  if (c.heads <= 0) fail(fmt::format("heads is {}{}, and has to be at least 1", c.heads, at));
  if (c.kv_heads <= 0 || c.heads % c.kv_heads != 0) {
    fail(fmt::format("kv_heads is {}{}, which does not divide heads = {}", c.kv_heads, at, c.heads));
  }
  if (given.head_dim == 0 && config.width % c.heads != 0) {
    fail(fmt::format("width {} is not a multiple of heads = {}{}; set head_dim to make it explicit",
                     config.width, c.heads, at));
  }
  if (c.head_dim <= 0) fail(fmt::format("head_dim is {}{}, and has to be at least 1", c.head_dim, at));
  not_negative("window", c.window);
  if (config.positions == Positions::rope && c.rotary && c.kv_rank == 0) {
    const double rotary = std::floor(static_cast<double>(c.head_dim) * c.rope.fraction);
    if (!(rotary >= 2)) {
      fail(fmt::format(
          "rotary positions need at least 2 dims of a head, but head_dim {} * rope_fraction {} leaves {}{}",
          c.head_dim, c.rope.fraction, rotary, at));
    }
    if (rotary_dim(c) > c.head_dim) {
      fail(fmt::format("head_dim is {}{}, and rotary positions need an even one", c.head_dim, at));
    }
  }
}

// Of a kind of scaling. `dim`: dims of a head that are turned.
void validate_scaling(const RopeConfig& c, int64_t dim, const std::string& at) {
  const auto demand = [&](bool good, const std::string& what) {
    if (!good) fail(what + at);
  };
  if (c.scaling == RopeScaling::dynamic)
    demand(dim > 2 && c.factor >= 1,
           "rope_scaling dynamic needs more than 2 rotated dims and a factor of at least 1;"
           " it has " +
               fmt::format("{} and {}", dim, c.factor));
  if (c.scaling == RopeScaling::llama3)
    demand(c.low_frequency > 0 && c.high_frequency > c.low_frequency,
           fmt::format("rope_low_frequency {} and rope_high_frequency {} have to be positive and rise",
                       c.low_frequency, c.high_frequency));
  if (c.scaling == RopeScaling::yarn) {
    demand(
        c.beta_slow > 0 && c.beta_fast > 0,
        fmt::format("rope_beta_slow {} and rope_beta_fast {} have to be positive", c.beta_slow, c.beta_fast));
    demand(c.base > 1, fmt::format("rope_scaling yarn needs a base above 1; rope_base is {}", c.base));
  }
  if (c.scaling != RopeScaling::longrope) return;
  demand(c.original_length > 1, "rope_scaling longrope needs a rope_original_length of at least 2");
  for (const auto* factors : {&c.short_factors, &c.long_factors}) {
    demand(
        static_cast<int64_t>(factors->size()) == dim / 2,
        fmt::format("rope_short_factors and rope_long_factors have to have {} numbers, one for each pair of "
                    "dims, and one has {}",
                    dim / 2, factors->size()));
    for (const double f : *factors)
      demand(f > 0 && f <= 1e30,
             fmt::format("a factor of rope_scaling longrope is {}, and has to be positive", f));
  }
}

void validate_rope(const RopeConfig& given, const RopeConfig& c, const std::string& at) {
  const auto more = [&](const char* name, double value) {
    if (!(value > 0)) fail(fmt::format("{} is {}{}, and has to be positive", name, value, at));
    in_range(name, value);
  };
  more("rope_base", c.base);
  more("rope_factor", c.factor);
  if (!(c.fraction > 0 && c.fraction <= 1))
    fail(fmt::format("rope_fraction is {}{}, and has to be in (0, 1]", c.fraction, at));
  if (c.scaling == RopeScaling::none && c.factor != 1)
    fail(fmt::format("rope_factor is {}{} without rope_scaling, which says how it is used", c.factor, at));
  if (given.original_length < 0)
    fail(fmt::format("rope_original_length is {}{}, and can't be negative", given.original_length, at));
  at_most("rope_original_length", c.original_length, 1 << 24);
  const std::pair<const char*, double> sizes[] = {{"rope_attention_factor", c.attention_factor},
                                                  {"rope_mscale", c.mscale},
                                                  {"rope_mscale_all", c.mscale_all},
                                                  {"rope_query_growth", c.query_growth}};
  for (const auto& [name, value] : sizes) {
    if (!(value >= 0 && value <= 1e30))
      fail(fmt::format("{} is {}{}, and can't be negative", name, value, at));
  }
  if (c.query_growth != 0 && c.fraction != 1)
    fail(fmt::format("rope_query_growth{} goes with a rope_fraction of 1", at));
}

// Bounds, sinks and norms within the attention.
void validate_logits(const ModelConfig& config, const LayerConfig& c, const std::string& at) {
  const std::pair<const char*, double> bounds[] = {{"attention_softcap", c.attention_softcap},
                                                   {"qkv_limit", c.qkv_limit}};
  for (const auto& [name, value] : bounds) {
    if (!(value >= 0 && value <= 1e30))
      fail(fmt::format("{} is {}{}, and can't be negative", name, value, at));
  }
  if (c.attention_softcap > 0 && config.positions == Positions::alibi)
    fail(fmt::format("attention_softcap{} does not go with alibi", at));
  if (c.qk_norm_late && c.qk_norm == QkNorm::none)
    fail(fmt::format("qk_norm_late{} asks for a norm, and qk_norm is none", at));
  const bool plain = c.norm == NormKind::layer_norm || c.norm == NormKind::rms_norm;
  if (c.qk_norm == QkNorm::own_gains && (!plain || c.norm_unit_offset)) {
    fail(fmt::format(
        "qk_norm own-gains{} goes with layer-norm and rms-norm without norm_unit_offset; the norm "
        "is {}",
        at, enum_name(c.norm)));
  }
}

// Latent attention is a kind of its own: what it has no place for is refused.
void validate_latent(const ModelConfig& config, const SublayerFormula& f, const LayerConfig& c,
                     const std::string& at) {
  not_negative("kv_rank", c.kv_rank);
  not_negative("q_rank", c.q_rank);
  not_negative("rope_dim", c.rope_dim);
  not_negative("value_dim", c.value_dim);
  for (const auto& [name, value] : {std::pair("kv_rank", c.kv_rank), std::pair("q_rank", c.q_rank),
                                    std::pair("value_dim", c.value_dim)}) {
    at_most(name, value, 1 << 16);
  }
  if (c.kv_rank == 0) {
    if (c.q_rank > 0 || c.rope_dim > 0 || c.value_dim != c.head_dim) {
      fail(fmt::format("q_rank, rope_dim and value_dim{} are for latent attention: set kv_rank", at));
    }
    return;
  }
  if (c.rope_dim < 2 || c.rope_dim % 2 != 0 || c.rope_dim > c.head_dim) {
    fail(fmt::format("rope_dim is {}{}, and has to be even and from 2 to head_dim = {}", c.rope_dim, at,
                     c.head_dim));
  }
  const auto apart = [&](const char* name, bool set) {
    if (set) fail(fmt::format("{}{} does not go with latent attention (kv_rank)", name, at));
  };
  apart("positions other than rope", config.positions != Positions::rope || !c.rotary);
  apart("rope_fraction", c.rope.fraction != 1);
  apart("rope_query_growth", c.rope.query_growth != 0);
  apart("kv_heads", c.kv_heads != c.heads);
  apart("qk_norm", c.qk_norm != QkNorm::none);
  apart("qkv_fused", c.qkv_fused);
  apart("attention_softcap", c.attention_softcap != 0);
  apart("attention_sinks", c.attention_sinks);
  apart("qkv_limit", c.qkv_limit != 0);
  apart("head_scale", f.head_scale);
  apart("norm_inner", f.norm_inner);
  apart("placement ngpt", f.unit);
  apart("an encoder beside the decoder", config.has_encoder() && config.has_decoder());
}

void validate_router(const LayerConfig& c, const std::string& at) {
  if (!(c.router_scale > 0))
    fail(fmt::format("router_scale is {}{}, and has to be positive", c.router_scale, at));
  in_range("router_scale", c.router_scale);
  if (c.router_groups < 1 || c.experts % c.router_groups != 0) {
    fail(fmt::format("router_groups is {}{}, which does not divide experts = {}", c.router_groups, at,
                     c.experts));
  }
  if (c.router_top_groups < 1 || c.router_top_groups > c.router_groups) {
    fail(fmt::format("router_top_groups is {}{}, and has to be between 1 and router_groups = {}",
                     c.router_top_groups, at, c.router_groups));
  }
  const int64_t open = c.router_top_groups * (c.experts / c.router_groups);
  if (c.experts_per_token > open) {
    fail(fmt::format("experts_per_token is {}{}, more than the {} experts of router_top_groups = {} groups",
                     c.experts_per_token, at, open, c.router_top_groups));
  }
  if (c.router_groups > 1 && c.router_group_by == RouterGroup::best_two && c.experts / c.router_groups < 2)
    fail(fmt::format("router_group_by{} is best-two, and a group has one expert", at));
}

void validate_experts(const LayerConfig& c, const std::string& at) {
  not_negative("experts", c.experts);
  not_negative("shared_experts", c.shared_experts);
  at_most("experts", c.experts, 4096);
  if (c.experts == 0) {
    if (c.shared_experts > 0)
      fail(fmt::format("shared_experts is {}{} without experts", c.shared_experts, at));
    return;
  }
  if (c.experts_per_token < 1 || c.experts_per_token > c.experts) {
    fail(fmt::format("experts_per_token is {}{}, and has to be between 1 and experts = {}",
                     c.experts_per_token, at, c.experts));
  }
  positive("shared_width", c.shared_width);
  at_most("shared_width", c.shared_width, 1 << 24);
  if (c.shared_gate && c.shared_experts == 0)
    fail(fmt::format("shared_gate{} is set without shared_experts", at));
  validate_router(c, at);
}

// One set of experts for all: the joint loss counts them together.
void validate_joint_balance(const ModelConfig& c) {
  int64_t experts = 0;
  const auto each = [&](Side side, int64_t layers) {
    for (int64_t i = 0; i < layers; ++i) {
      const int64_t here = layer_config(c, side, i).experts;
      if (here > 0 && experts > 0 && here != experts)
        fail(fmt::format("router_aux_joint is for layers of as many experts; there are {} and {}", experts,
                         here));
      experts = std::max(experts, here);
    }
  };
  each(Side::encoder, c.encoder_layers);
  each(Side::decoder, c.decoder_layers);
}

// What would be passed over in silence: norms where there are none, gains that start at 0 and get no 1 added.
void validate_norms(const LayerConfig& given, const LayerConfig& c, const std::string& at) {
  using enum NormKind;
  const bool adds_one = (c.norm == layer_norm || c.norm == rms_norm) && c.norm_affine;
  if (c.norm_unit_offset && !adds_one) {
    fail(fmt::format("norm_unit_offset{} is for the gains of layer-norm and rms-norm; the norm is {}{}", at,
                     enum_name(c.norm), c.norm_affine ? "" : " without gains"));
  }
  if (c.norm != none) return;
  const auto needs_a_kind = [&](const char* name, bool wanted) {
    if (wanted) fail(fmt::format("{}{} asks for a norm, and norm is none", name, at));
  };
  needs_a_kind("norm_in", given.norm_in.value_or(false));
  needs_a_kind("norm_inner", given.norm_inner.value_or(false));
  needs_a_kind("norm_branch", given.norm_branch.value_or(false));
  needs_a_kind("norm_out", given.norm_out.value_or(false));
  needs_a_kind("qk_norm", given.qk_norm != QkNorm::none);
}

// nGPT is one model: of all layers, with all that keeps its vectors at length 1.
void validate_unit(const ModelConfig& config, const SublayerFormula& f, const std::string& at) {
  const Side side = config.has_decoder() ? Side::decoder : Side::encoder;
  if (f.unit != sublayer_formula(config, side, 0).unit) {
    fail(fmt::format("placement ngpt keeps the stream at length 1 through all layers; the layers{} differ",
                     at));
  }
  if (!f.unit) return;
  const bool whole = f.norm_branch && f.norm_out && f.gate == GateKind::vector &&
                     f.shortcut == GateKind::constant && f.alpha == 1 && f.dual == 0;
  if (!whole) {
    fail(fmt::format(
        "placement ngpt{} goes with its own norms, gate and shortcut: unset norm (none), norm_branch, "
        "norm_out, gate, shortcut, alpha and dual",
        at));
  }
}

// Where several streams are mixed, the maps take the place of alpha and g.
void validate_mixing(const SublayerFormula& f, const LayerConfig& c, const std::string& at) {
  if (f.mixing == Mixing::none) {
    if (c.streams != LayerConfig{}.streams)
      fail(
          fmt::format("streams is {}{}, and nothing mixes several streams there: set mixing", c.streams, at));
    return;
  }
  if (f.streams < 2 || f.streams > 8)
    fail(fmt::format("streams is {}{}, and has to be between 2 and 8 where they are mixed", f.streams, at));
  if (f.norm_out) fail(fmt::format("norm_out{} does not go with several streams (mixing)", at));
  if (f.dual != 0) fail(fmt::format("dual{} does not go with several streams (mixing)", at));
  if (f.alpha != 1 || f.shortcut != GateKind::constant || f.gate != GateKind::constant) {
    fail(fmt::format(
        "alpha, shortcut and gate{} do not go with several streams (mixing): the maps are learned", at));
  }
  if (c.parallel != Parallel::no)
    fail(fmt::format("parallel{} does not go with several streams (mixing)", at));
}

void validate_bounds(const LayerConfig& c, const std::string& at) {
  if (!(c.ffn_limit >= 0)) fail(fmt::format("ffn_limit is {}{}, and can't be negative", c.ffn_limit, at));
  in_range("ffn_limit" + at, c.ffn_limit);
  in_range("up_offset" + at, c.up_offset);
  if ((c.ffn_limit != 0 || c.up_offset != 0) && !c.gated)
    fail(fmt::format("ffn_limit and up_offset{} are for a gated feed-forward", at));
}

void validate_layer(const ModelConfig& config, Side side, int64_t index) {
  const LayerConfig& given = layer_config(config, side, index);
  const LayerConfig c = resolved_layer(config, side, index);
  const std::string at = index == 0 ? "" : fmt::format(" in layer {}", index);
  validate_attention(config, given, c, at);
  validate_rope(given.rope, c.rope, at);
  if (config.positions == Positions::rope && c.rotary) validate_scaling(c.rope, rotary_dim(c), at);
  validate_logits(config, c, at);
  validate_experts(c, at);
  validate_bounds(c, at);
  if (c.ffn_width <= 0) fail(fmt::format("ffn_width is {}{}, and has to be at least 1", c.ffn_width, at));
  if (c.gate_up_fused && !c.gated) fail(fmt::format("gate_up_fused{} is set without gated", at));
  at_most("ffn_width", c.ffn_width, 1 << 24);
  at_most("heads", c.heads, 1 << 16);
  at_most("head_dim", c.head_dim, 1 << 16);
  if (!(c.norm_eps > 0 && c.norm_eps < 1))
    fail(fmt::format("norm_eps is {}{}, and has to be in (0, 1)", c.norm_eps, at));
  validate_norms(given, c, at);
  in_range("alpha" + at, given.alpha.value_or(1));
  in_range("s" + at, given.s.value_or(1));
  in_range("gate_value" + at, given.gate_value.value_or(1));
  in_range("dual" + at, given.dual.value_or(0));
  in_range("attention_scale" + at, c.attention_scale);
  const SublayerFormula f = sublayer_formula(config, side, index);
  validate_latent(config, f, c, at);
  if (f.reparam == Reparam::sigma && f.output_gain == 0) {
    fail(fmt::format("reparam{} is sigma, which divides by spectral norms; placement {} starts matrices at 0",
                     at, enum_name(c.placement)));
  }
  validate_unit(config, f, at);
  if (f.dual != 0 && f.gate != GateKind::constant) {
    fail(fmt::format("a second stream (dual){} goes with a constant gate", at));
  }
  if (f.dual != sublayer_formula(config, side, 0).dual) {
    fail(fmt::format("dual{} is {}, and {} in layer 0: the second stream runs through all layers", at, f.dual,
                     sublayer_formula(config, side, 0).dual));
  }
  validate_mixing(f, c, at);
  if (f.streams != sublayer_formula(config, side, 0).streams) {
    fail(fmt::format("streams{} is {}, and {} in layer 0: all layers of a stack have the same streams", at,
                     f.streams, sublayer_formula(config, side, 0).streams));
  }
  if (c.parallel != Parallel::no && (f.norm_out || f.norm_inner || side == Side::encoder)) {
    fail(fmt::format("parallel attention and feed-forward{} go with norms before the branch, in a decoder",
                     at));
  }
  if (c.parallel != Parallel::no && config.has_encoder()) {
    fail("parallel attention and feed-forward are for decoder-only models");
  }
}

void validate_head(const ModelConfig& c) {
  const auto count = static_cast<int64_t>(c.labels.size());
  const bool sequences = c.head == Head::sequence_classification,
             names = sequences || c.head == Head::token_classification;
  if (!names && count > 0)
    fail(fmt::format("labels are names of classes, and the head is {}", enum_name(c.head)));
  if (names && count == 0) fail(fmt::format("the head is {}, and there are no labels", enum_name(c.head)));
  at_most("the number of labels", count, 1 << 20);
  if (!sequences && c.problem != Problem::by_targets)
    fail(fmt::format("problem is {}, which is for sequence-classification", enum_name(c.problem)));
  if (c.problem == Problem::single_label && count == 1)
    fail("problem is single-label, and there is one label: two are the fewest, or regression");
  if (c.head == Head::none || c.head == Head::language_model) return;
  if (c.has_encoder())
    throw Error(ErrorKind::unsupported, "a head over classes is for decoder-only models yet");
  if (c.head_transform || c.logits_bias || c.logits_scale != 1 || c.logits_softcap != 0 || c.base_width > 0) {
    fail(
        fmt::format("head_transform, logits_bias, logits_scale, logits_softcap and base_width do not go with "
                    "the head {}",
                    enum_name(c.head)));
  }
}

void validate_embeddings(const ModelConfig& c) {
  if (!(c.alibi_max > 0 && c.alibi_max <= 100))
    fail(fmt::format("alibi_max is {}, and has to be above 0 and at most 100", c.alibi_max));
  not_negative("position_offset", c.position_offset);
  at_most("position_offset", c.position_offset, 1 << 24);
  not_negative("embedding_width", c.embedding_width);
  at_most("embedding_width", c.embedding_width, kMostWidth);
  if (c.embedding_width == 0) return;
  if (c.has_encoder())
    throw Error(ErrorKind::unsupported, "embedding_width is supported in decoder-only models alone");
  if (c.head_transform) fail("embedding_width and head_transform do not go together");
  if (sublayer_formula(c, Side::decoder, 0).unit)
    fail("embedding_width does not go with placement ngpt, where the stream begins as token vectors");
}

void validate_runs(const std::vector<LayerRun>& runs, int64_t layers, const char* side) {
  for (const LayerRun& run : runs) {
    if (run.first < 0 || run.count < 1 || run.first + run.count > layers) {
      fail(fmt::format("a run of layers {} to {} lies outside the {}'s {} layers", run.first,
                       run.first + run.count - 1, side, layers));
    }
  }
}

void validate_ids(const ModelConfig& c) {
  const auto id = [&](const char* name, int64_t value) {
    if (value < -1 || value >= c.vocab_size) {
      fail(fmt::format("{} is {}, outside the vocabulary of {}", name, value, c.vocab_size));
    }
  };
  id("bos_id", c.bos_id);
  id("pad_id", c.pad_id);
  id("mask_id", c.mask_id);
  id("decoder_start_id", c.decoder_start_id);
  for (const int64_t eos : c.eos_ids) id("eos_ids", eos);
}

}  // namespace

void validate(const ModelConfig& c) {
  positive("vocab_size", c.vocab_size);
  positive("width", c.width);
  positive("max_length", c.max_length);
  at_most("vocab_size", c.vocab_size, 1 << 28);
  at_most("width", c.width, kMostWidth);
  at_most("max_length", c.max_length, 1 << 24);
  not_negative("encoder_layers", c.encoder_layers);
  not_negative("decoder_layers", c.decoder_layers);
  at_most("encoder_layers", c.encoder_layers, kMostLayers);
  at_most("decoder_layers", c.decoder_layers, kMostLayers);
  if (!c.has_encoder() && !c.has_decoder())
    fail("encoder_layers and decoder_layers are both 0: there is no model");
  validate_embeddings(c);
  validate_head(c);
  validate_runs(c.encoder_runs, c.encoder_layers, "encoder");
  validate_runs(c.decoder_runs, c.decoder_layers, "decoder");
  if (c.positions == Positions::sinusoidal && c.width % 2 != 0) {
    fail(fmt::format("width is {}, and sinusoidal positions need an even one", c.width));
  }
  probability("dropout", c.dropout);
  probability("attention_dropout", c.attention_dropout);
  probability("embedding_dropout", c.embedding_dropout);
  probability("head_dropout", c.head_dropout);
  if (!(c.init_std > 0)) fail(fmt::format("init_std is {}, and has to be positive", c.init_std));
  in_range("init_std", c.init_std);
  in_range("embedding_scale", c.embedding_scale);
  in_range("logits_scale", c.logits_scale);
  if (c.logits_scale == 0) fail("logits_scale is 0, and can't be");
  if (c.logits_scale != 1 && (c.head_bias || c.head_transform))
    fail("logits_scale does not go with head_bias or head_transform");
  if (!(c.logits_softcap >= 0 && c.logits_softcap <= 1e30))
    fail(fmt::format("logits_softcap is {}, and can't be negative", c.logits_softcap));
  not_negative("base_layers", c.base_layers);
  not_negative("base_width", c.base_width);
  at_most("base_layers", c.base_layers, kMostLayers);
  at_most("base_width", c.base_width, kMostWidth);
  if (!(c.depth_alpha >= 0 && c.depth_alpha <= 2))
    fail(fmt::format("depth_alpha is {}, and has to be in [0, 2]", c.depth_alpha));
  if (!(c.router_aux >= 0)) fail(fmt::format("router_aux is {}, and can't be negative", c.router_aux));
  in_range("router_aux", c.router_aux);
  not_negative("token_types", c.token_types);
  if (c.token_types > 0 && !c.has_encoder()) fail("token_types are for models with an encoder");
  validate_ids(c);
  for (int64_t i = 0; i < c.encoder_layers; ++i) validate_layer(c, Side::encoder, i);
  for (int64_t i = 0; i < c.decoder_layers; ++i) validate_layer(c, Side::decoder, i);
  if (c.router_aux_joint) validate_joint_balance(c);
}

}  // namespace plumb
