// Rules on the sub-layer formula: where norms stand, and what is multiplied with what.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "lab/check.h"
#include "plumb/config_fields.h"

namespace plumb {
namespace {

std::string norms_words(const SublayerFormula& f) {
  std::string words;
  const auto say = [&](bool there, const char* what) {
    if (there) words += (words.empty() ? "" : " and ") + std::string(what);
  };
  say(f.norm_in, "before the branch");
  say(f.norm_inner, "inside the branch");
  say(f.norm_branch, "on the branch's output");
  say(f.norm_out, "after the add");
  return words.empty() ? "no norm" : "a norm " + words;
}

bool same_norms(const SublayerFormula& a, const SublayerFormula& b) {
  return a.norm_in == b.norm_in && a.norm_inner == b.norm_inner && a.norm_branch == b.norm_branch &&
         a.norm_out == b.norm_out;
}

// What a placement says at this depth, with no field of its own.
SublayerFormula of_placement(const LayerView& v, Placement placement) {
  ModelConfig plain;
  plain.encoder_layers = v.config.encoder_layers;
  plain.decoder_layers = v.config.decoder_layers;
  plain.layer.placement = placement;
  plain.layer.norm = v.layer.norm;
  return sublayer_formula(plain, v.side, v.index);
}

void norm_on_wrong_side(const CheckSubject& s, Findings& f) {
  constexpr std::pair<const char*, const char*> kFlags[] = {
      {"marian", "normalize_before"},
      {"bart", "normalize_before"},
      {"bloom", "apply_residual_connection_post_layernorm"}};
  for (const auto& [type, key] : kFlags) {
    if (s.model_type() == type && s.json.raw(key).is_boolean() && s.json.flag(key, false))
      f.add(fmt::format("config.json: {}", key), "true", fmt::format("false, as {} is published", type));
  }
  constexpr std::pair<const char*, Placement> kPublished[] = {{"gpt2", Placement::pre_norm},
                                                              {"llama", Placement::pre_norm},
                                                              {"bert", Placement::post_norm},
                                                              {"marian", Placement::post_norm}};
  by_layers(s, f, [&](const LayerView& v) -> std::optional<LayerFault> {
    for (const auto& [type, placement] : kPublished) {
      const SublayerFormula published = of_placement(v, placement);
      if (s.model_type() == type && !same_norms(v.formula, published))
        return LayerFault{norms_words(v.formula), norms_words(published) + ", as in " + type};
    }
    return {};
  });
}

void fields_overrule_placement(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    const SublayerFormula named = of_placement(v, v.layer.placement);
    if (same_norms(v.formula, named)) return {};
    return LayerFault{norms_words(v.formula),
                      fmt::format("{}: {}", enum_name(v.layer.placement), norms_words(named))};
  });
}

void final_norm_missing(const CheckSubject& s, Findings& f) {
  if (!s.config) return;
  for (const Side side : {Side::encoder, Side::decoder}) {
    const int64_t layers = layers_of(*s.config, side);
    if (layers == 0 || has_final_norm(*s.config, side)) continue;
    const SublayerFormula last = sublayer_formula(*s.config, side, layers - 1);
    const bool shifts = resolved_layer(*s.config, side, layers - 1).norm == NormKind::shift;
    if (last.norm_out || shifts || !(last.norm_in || last.norm_branch)) continue;
    f.add(side_name(side),
          fmt::format("{} layers with {} and no norm after the last", layers, norms_words(last)),
          "final_norm: true");
  }
}

void final_norm_double(const CheckSubject& s, Findings& f) {
  if (!s.config) return;
  for (const Side side : {Side::encoder, Side::decoder}) {
    const int64_t layers = layers_of(*s.config, side);
    if (layers == 0 || !has_final_norm(*s.config, side)) continue;
    const SublayerFormula last = sublayer_formula(*s.config, side, layers - 1);
    if (last.norm_out && last.dual == 0)
      f.add(side_name(side), "the last layer ends in a norm, and one more follows", "final_norm: false");
  }
}

void alpha_on_branch(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    const SublayerFormula& y = v.formula;
    if (!y.norm_out || y.gate != GateKind::constant || y.gate_value <= 1.05) return {};
    return LayerFault{fmt::format("{} (g = {:.4g} on F)", y.str(), y.gate_value),
                      fmt::format("alpha = {:.4g} on x, and F as it is", y.gate_value)};
  });
}

void deep_norm_alpha(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    if (v.layer.placement != Placement::deep_norm) return {};
    const double published = of_placement(v, Placement::deep_norm).alpha;
    if (std::abs(v.formula.alpha / published - 1) < 0.01) return {};
    return LayerFault{fmt::format("alpha = {:.4g}", v.formula.alpha),
                      fmt::format("{:.4g} for {} layers", published, v.layers)};
  });
}

void alpha_without_init(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    if (!v.formula.norm_out || v.formula.alpha <= 1.05 || v.formula.beta != 1) return {};
    return LayerFault{
        fmt::format("alpha = {:.4g} in placement {}", v.formula.alpha, enum_name(v.layer.placement)),
        "placement deep-norm, which also draws V, output and feed-forward smaller"};
  });
}

void shortcut_shrinks(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    const double a = std::abs(v.formula.alpha);
    if (v.formula.norm_out || a == 0 || a >= 1) return {};
    const double left = std::pow(a, 2.0 * static_cast<double>(v.layers));
    if (left > 0.01) return {};
    return LayerFault{fmt::format("alpha = {:.4g}: {:.2g} of the gradient is left after {} sub-layers", a,
                                  left, 2 * v.layers),
                      "alpha = 1"};
  });
}

void no_shortcut(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    if (v.formula.alpha != 0 || v.layers < 6) return {};
    return LayerFault{fmt::format("{} layers without a shortcut", v.layers),
                      "alpha = 1; at 6 layers such a stack stays at the unigram loss"};
  });
}

void frozen_branch_norm(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    if (!v.formula.norm_branch || v.layer.norm_affine || v.formula.unit) return {};
    return LayerFault{"norm_affine: false", "a learned gain on the branch's norm"};
  });
}

void sub_ln_and_deep_norm(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    if (!v.formula.norm_inner || v.formula.alpha <= 1.05) return {};
    return LayerFault{fmt::format("a norm inside the branch and alpha = {:.4g}", v.formula.alpha),
                      "one of the two"};
  });
}

void scaling_with_scaled_init(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    if (v.layer.placement != Placement::layer_norm_scaling || init_of(v.config) != Init::scaled_normal)
      return {};
    return LayerFault{"init: scaled-normal", "init: normal"};
  });
}

void layer_scale_start(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    if (v.formula.gate != GateKind::vector) return {};
    const double published = of_placement(v, Placement::layer_scale).gate_value;
    const double ratio = v.formula.gate_value / published;
    if (ratio <= 100 && ratio >= 0.01) return {};
    return LayerFault{fmt::format("gate_value = {:.4g}", v.formula.gate_value),
                      fmt::format("about {:.4g} for {} layers", published, v.layers)};
  });
}

void re_zero_start(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    if (v.layer.placement != Placement::re_zero || v.formula.gate_value == 0) return {};
    return LayerFault{fmt::format("gate_value = {:.4g}", v.formula.gate_value), "0"};
  });
}

void output_norm_without_qk_norm(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    const bool reordered = v.formula.norm_branch && !v.formula.norm_in && !v.formula.norm_out;
    if (!reordered || v.layer.qk_norm != QkNorm::none) return {};
    return LayerFault{"queries and keys of a stream that no norm bounds", "qk_norm: whole or per-head"};
  });
}

void post_norm_on_top(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    if (!v.formula.norm_out || v.index == 0) return {};
    const SublayerFormula below = sublayer_formula(v.config, v.side, v.index - 1);
    if (below.norm_out || !below.norm_in) return {};
    return LayerFault{fmt::format("a post-norm layer above pre-norm layer {}", v.index - 1),
                      "the post-norm layers first, about a quarter of the stack"};
  });
}

void files_cannot_say(const CheckSubject& s, Findings& f) {
  std::string why;
  if (!s.recipe() || !s.valid || family_fits(*s.config, &why)) return;
  f.add("recipe", why, "model-type = \"plumbline\"");
}

constexpr Rule kRules[] = {
    {"PL101", Severity::error,
     "The norms stand on another side of the branch than the family is published with.",
     "Xiong 2020, arXiv 2002.04745", "Take the family's placement, or model_type plumbline for a new one.",
     norm_on_wrong_side},
    {"PL102", Severity::warning,
     "Fields move the norms to other sides of the branch than the placement's name says.",
     "Xiong 2020, arXiv 2002.04745; OLMo 2, arXiv 2501.00656",
     "Name the placement that is meant, and unset the fields.", fields_overrule_placement},
    {"PL103", Severity::error, "A stack whose layers leave the stream without a norm has no final norm.",
     "Xiong 2020, arXiv 2002.04745", "Set final_norm to true, or leave it unset.", final_norm_missing},
    {"PL104", Severity::warning, "The last layer ends in a norm, and a final norm follows it.",
     "Vaswani 2017, arXiv 1706.03762; Wang 2022, arXiv 2203.00555",
     "Set final_norm to false, or leave it unset.", final_norm_double},
    {"PL105", Severity::warning,
     "The factor above 1 of a post-norm sub-layer multiplies the branch, not the shortcut.",
     "Wang 2022, arXiv 2203.00555 (labml computes x + alpha f(x))", "Set alpha, and gate_value to 1.",
     alpha_on_branch},
    {"PL106", Severity::warning, "DeepNorm's alpha is not the one of this depth.",
     "Wang 2022, arXiv 2203.00555, table 1", "Leave alpha unset.", deep_norm_alpha},
    {"PL107", Severity::warning, "The shortcut is weighted up as in DeepNorm, without DeepNorm's init.",
     "Wang 2022, arXiv 2203.00555", "Use placement deep-norm.", alpha_without_init},
    {"PL108", Severity::warning, "A shortcut factor below 1 shrinks the gradient to nothing over the depth.",
     "He 2016, arXiv 1603.05027", "Set alpha to 1.", shortcut_shrinks},
    {"PL109", Severity::warning, "A deep stack has no shortcut.", "He 2015, arXiv 1512.03385",
     "Use any placement but plain, which is an experiment.", no_shortcut},
    {"PL110", Severity::warning, "The norm on the branch's output has no learned gain.",
     "Kim 2025 (Peri-LN), arXiv 2502.02732", "Set norm_affine to true.", frozen_branch_norm},
    {"PL111", Severity::warning, "Sub-LN's larger gains and DeepNorm's alpha are combined.",
     "Wang 2022 (Magneto), arXiv 2210.06423; torchscale#64", "Use one of the two placements.",
     sub_ln_and_deep_norm},
    {"PL112", Severity::note, "LayerNorm scaling is combined with init scaled by depth.",
     "Sun 2025, arXiv 2502.05795", "Set init to normal.", scaling_with_scaled_init},
    {"PL113", Severity::warning,
     "LayerScale starts more than a hundred times off the published value for this depth.",
     "Touvron 2021 (CaiT), arXiv 2103.17239", "Leave gate_value unset.", layer_scale_start},
    {"PL114", Severity::warning, "ReZero's gate does not start at 0.", "Bachlechner 2020, arXiv 2003.04887",
     "Leave gate_value unset.", re_zero_start},
    {"PL115", Severity::warning, "Norms stand on branch outputs only, and queries and keys have none.",
     "OLMo 2, arXiv 2501.00656", "Set qk_norm to whole.", output_norm_without_qk_norm},
    {"PL116", Severity::warning, "Post-norm layers stand above pre-norm ones.",
     "Li 2024 (Mix-LN), arXiv 2412.13795", "Put the post-norm layers first.", post_norm_on_top},
    {"PL117", Severity::error, "The files of the family cannot say what the recipe asks for.",
     "docs/adding-a-family.md", "Set model-type to plumbline, or take the family's own values.",
     files_cannot_say},
};

}  // namespace

const RuleGroup kPlacementRules{"placement", kRules};

}  // namespace plumb
