// Rules on attention: heads, positions, logits.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lab/check.h"
#include "nn/rotary.h"

namespace plumb {
namespace {

struct HeadCounts {
  std::string where;
  std::optional<int64_t> width, heads, kv_heads, head_dim;
};

// By the config where it could be read, else by the keys that most families share.
HeadCounts head_counts(const CheckSubject& s) {
  HeadCounts h{.where = s.recipe() ? "recipe" : "config.json"};
  if (s.config) {
    const LayerConfig& l = s.config->layer;
    h.width = s.config->width;
    h.heads = l.heads;
    if (l.kv_heads != 0) h.kv_heads = l.kv_heads;
    if (l.head_dim != 0) h.head_dim = l.head_dim;
    return h;
  }
  h.width = whole(s.json, {"hidden_size", "n_embd", "d_model"});
  h.heads = whole(s.json, {"num_attention_heads", "n_head", "num_heads", "encoder_attention_heads"});
  h.kv_heads = whole(s.json, {"num_key_value_heads"});
  h.head_dim = whole(s.json, {"head_dim", "d_kv", "qk_nope_head_dim", "kv_channels", "v_head_dim"});
  return h;
}

void groups_do_not_divide(const CheckSubject& s, Findings& f) {
  const HeadCounts h = head_counts(s);
  if (!h.heads || !h.kv_heads || *h.heads < 1) return;
  if (*h.kv_heads > 0 && *h.heads % *h.kv_heads == 0) return;
  f.add(h.where, fmt::format("{} query heads over {} key/value heads", *h.heads, *h.kv_heads),
        "a number of key/value heads that divides the query heads");
}

void width_does_not_divide(const CheckSubject& s, Findings& f) {
  const HeadCounts h = head_counts(s);
  if (!h.heads || !h.width || h.head_dim || *h.heads < 1 || *h.width % *h.heads == 0) return;
  f.add(h.where, fmt::format("width {} over {} heads, and no head_dim", *h.width, *h.heads),
        "a width that is a multiple of the heads, or head_dim");
}

void odd_head_dim(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    if (v.config.positions != Positions::rope || !v.layer.rotary || v.layer.rope.fraction != 1) return {};
    if (v.layer.heads < 1) return {};
    const bool derived = layer_config(v.config, v.side, v.index).head_dim == 0;
    if (v.layer.head_dim % 2 == 0 || (derived && v.config.width % v.layer.heads != 0)) return {};
    return LayerFault{fmt::format("head_dim = {} with rotary positions", v.layer.head_dim), "an even one"};
  });
}

void odd_scale(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    if (v.layer.attention_scale == 0 || v.layer.head_dim < 1 || v.layer.qk_norm != QkNorm::none) return {};
    const double usual = 1 / std::sqrt(static_cast<double>(v.layer.head_dim));
    const double ratio = v.layer.attention_scale / usual;
    if (ratio < 4) return {};
    return LayerFault{
        fmt::format("logits times {:.4g}, {:.3g} times the usual", v.layer.attention_scale, ratio),
        fmt::format("1/sqrt(head_dim) = {:.4g}, or a norm on queries and keys", usual)};
  });
}

// A trained model looks near by more than far off. With dims paired the wrong way that is lost, so the wrong
// style is the one whose attention lies farther away, by a margin that random weights (within 2 %) don't
// reach. What the text's loss says clearly comes first: by its size, or by four standard errors. A model that
// was trained for 150 steps says nothing on a text of another kind, and little on its own (0.03 to 0.08
// nats, up to three standard errors).
void other_rope_style(const CheckSubject& s, Findings& f) {
  const double excess = s.pass.loss - s.pass.other_loss, sure = std::max(0.02, 4 * s.pass.loss_error);
  if (!s.pass.of_text || excess < -std::min(0.1, sure)) return;
  double own = 0, other = 0, layers = 0;
  for (const CheckAttention& a : s.pass.attention) {
    if (!a.rotary) continue;
    own += a.distance;
    other += a.other_distance;
    ++layers;
  }
  const bool worse = excess > std::min(0.3, sure);
  if (layers == 0 || (other >= 0.9 * own && !worse)) return;
  std::string found = fmt::format(
      "attention lies {:.3g} times as far away as uniform attention, with the other pairing {:.3g} times",
      own / layers, other / layers);
  if (s.pass.loss > 0)
    found += fmt::format("; the text's loss is {:.4g}, and {:.4g}", s.pass.loss, s.pass.other_loss);
  const bool interleaved = s.config->layer.rope.interleaved;
  f.add("config.json: rope_interleaved", found,
        interleaved ? "halves are paired (false)" : "neighbours are paired (true)");
}

void base_too_small(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    const ModelConfig& c = v.config;
    if (c.positions != Positions::rope || !v.layer.rotary || v.layer.head_dim < 2 || v.layer.rope.base <= 0)
      return {};
    const auto d = static_cast<double>(rotary_dim(v.layer));
    if (d < 2) return {};
    const double longest = 2 * M_PI * std::pow(v.layer.rope.base, (d - 2) / d) * v.layer.rope.factor;
    const int64_t reach = v.layer.window > 0 ? std::min(v.layer.window, c.max_length) : c.max_length;
    if (longest >= static_cast<double>(reach)) return {};
    return LayerFault{
        fmt::format("base {:g}: the slowest pair turns once in {:.0f} positions", v.layer.rope.base, longest),
        fmt::format("at least the {} positions that are read", reach)};
  });
}

void table_of_other_length(const CheckSubject& s, Findings& f) {
  const std::optional<int64_t> said = whole(s.json, {"n_positions", "max_position_embeddings"});
  if (!said) return;
  for (const CheckTensor& t : s.tensors) {
    const bool table = t.name.ends_with("wpe.weight") ||
                       (t.name.ends_with("position_embeddings.weight") && s.model_type() == "bert");
    if (table && t.value.shape()[0] != *said)
      f.add(t.name, fmt::format("{} rows", t.value.shape()[0]),
            fmt::format("{}, as config.json says", *said));
  }
}

void window_of_one(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    if (v.layer.window != 1) return {};
    return LayerFault{"window = 1: a query sees itself alone", "0 for all, or at least 2"};
  });
}

void no_order(const CheckSubject& s, Findings& f) {
  if (!s.config || !s.config->has_encoder()) return;
  const ModelConfig& c = *s.config;
  bool rotary = false;
  for (int64_t i = 0; i < c.encoder_layers; ++i) rotary = rotary || layer_config(c, Side::encoder, i).rotary;
  if (c.positions == Positions::none || (c.positions == Positions::rope && !rotary))
    f.add("encoder", "no positions, so that the order of the tokens is lost", "positions other than none");
}

void large_logits(const CheckSubject& s, Findings& f) {
  for (const CheckAttention& a : s.pass.attention) {
    if (a.max_logit > 1000)
      f.add(a.module, fmt::format("an attention logit of {:.3g}", a.max_logit),
            "below 1000; runs past 10000 diverged");
  }
}

void entropy_collapsed(const CheckSubject& s, Findings& f) {
  for (const CheckAttention& a : s.pass.attention) {
    if (a.entropy < 0.02)
      f.add(a.module, fmt::format("entropy is {:.2g} of its largest value, over all heads", a.entropy),
            "above 0.02");
  }
}

constexpr Rule kRules[] = {
    {"PL401", Severity::error, "The key/value heads do not divide the query heads.",
     "Ainslie 2023 (GQA), arXiv 2305.13245", "Set kv_heads (num_key_value_heads) to a divisor of heads.",
     groups_do_not_divide},
    {"PL402", Severity::error, "The width is not a multiple of the heads, and no head_dim is given.",
     "Vaswani 2017, arXiv 1706.03762; elixir-nx/bumblebee#364", "Change heads, or set head_dim.",
     width_does_not_divide},
    {"PL403", Severity::error,
     "Rotary positions turn pairs of dims, and the heads have an odd number of them.",
     "Su 2021 (RoFormer), arXiv 2104.09864", "Set an even head_dim.", odd_head_dim},
    {"PL404", Severity::warning, "Attention logits are scaled to several times the usual size.",
     "Vaswani 2017, arXiv 1706.03762; Wortsman 2023, arXiv 2309.14322",
     "Unset attention_scale, or set qk_norm.", odd_scale},
    {"PL405", Severity::error,
     "The weights were trained with the other way of pairing dims in rotary positions.",
     "Su 2021 (RoFormer), arXiv 2104.09864; ggml-org/llama.cpp#7481, jzhang38/TinyLlama#24",
     "Flip rope_interleaved, or permute the rows of Q and K.", other_rope_style},
    {"PL406", Severity::warning,
     "The rotary base is too small for the longest sequence: far positions look alike.",
     "Men 2024, arXiv 2405.14591; Chen 2023, arXiv 2306.15595",
     "Raise rope_base or rope_factor, or lower max_length.", base_too_small},
    {"PL407", Severity::error, "The table of learned positions has another length than the config says.",
     "Radford 2019 (GPT-2); Devlin 2018, arXiv 1810.04805",
     "Set the number of positions to the rows of the table.", table_of_other_length},
    {"PL408", Severity::warning, "A window of one token makes attention a linear map.",
     "Beltagy 2020, arXiv 2004.05150", "Widen the window; it counts the query itself.", window_of_one},
    {"PL409", Severity::warning, "An encoder without positions cannot tell orders apart.",
     "Vaswani 2017, arXiv 1706.03762", "Set positions.", no_order},
    {"PL410", Severity::warning, "Attention logits are of the size at which runs lose quality or diverge.",
     "Wortsman 2023, arXiv 2309.14322", "Train with qk_norm, or at a lower rate.", large_logits},
    {"PL411", Severity::warning, "Attention has collapsed onto single keys in all heads of a layer.",
     "Zhai 2023, arXiv 2303.06296", "Train with qk_norm, or at a lower rate.", entropy_collapsed},
};

}  // namespace

const RuleGroup kAttentionRules{"attention", kRules};

}  // namespace plumb
