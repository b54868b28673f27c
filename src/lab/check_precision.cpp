// Rules on what half precision can hold, and on what the sample text shows of the streams.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lab/check.h"

namespace plumb {
namespace {

constexpr double kLargestHalf = 65504, kMargin = 8;
constexpr double kSmallestHalf = 0x1p-24;

bool stored_in_half(const CheckSubject& s) {
  return std::any_of(s.tensors.begin(), s.tensors.end(), [](const CheckTensor& t) {
    return t.role == Role::matrix && t.value.dtype() == DType::f16;
  });
}

std::string at(const CheckSite& site) {
  return fmt::format("{} ({})", site.module, site.quantity);
}

void near_overflow(const CheckSubject& s, Findings& f) {
  for (const CheckSite& site : s.pass.sites) {
    if (site.max > kLargestHalf / kMargin && !(stored_in_half(s) && site.max > kLargestHalf))
      f.add(at(site),
            fmt::format("|x| up to {:.4g}, {:.2g} of f16's largest", site.max, site.max / kLargestHalf),
            fmt::format("below {:.0f}, a factor {} away from 65504", kLargestHalf / kMargin, kMargin));
  }
}

void overflow_in_half(const CheckSubject& s, Findings& f) {
  if (!stored_in_half(s)) return;
  for (const CheckSite& site : s.pass.sites) {
    if (site.max > kLargestHalf)
      f.add(at(site), fmt::format("|x| up to {:.4g} in a model stored in f16", site.max), "at most 65504");
  }
}

void saturated_weights(const CheckSubject& s, Findings& f) {
  for (const CheckTensor& t : s.tensors) {
    if (t.saturated > 0)
      f.add(t.name, fmt::format("{} values are f16's largest, or infinite", t.saturated),
            "the values before conversion");
  }
}

void weights_beyond_half(const CheckSubject& s, Findings& f) {
  for (const CheckTensor& t : s.tensors) {
    if (t.role == Role::matrix && t.moments.not_finite == 0 && t.moments.max_abs > kLargestHalf)
      f.add(t.name, fmt::format("|w| up to {:.4g}", t.moments.max_abs), "at most 65504");
  }
}

void eps_is_zero_in_half(const CheckSubject& s, Findings& f) {
  if (!stored_in_half(s)) return;
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    if (v.layer.norm == NormKind::none || v.layer.norm_eps > kSmallestHalf / 2) return {};
    return LayerFault{fmt::format("norm_eps = {:g} and weights in f16", v.layer.norm_eps),
                      "eps above 6e-8, or statistics in f32"};
  });
}

void massive_activations(const CheckSubject& s, Findings& f) {
  for (const CheckSite& site : s.pass.sites) {
    if (site.quantity == "stream" && site.max > 100 && site.median > 0 && site.max > 1000 * site.median)
      f.add(at(site),
            fmt::format("|x| up to {:.4g}, {:.0f} times the median", site.max, site.max / site.median),
            "below 1000 times the median");
  }
}

void activations_not_finite(const CheckSubject& s, Findings& f) {
  for (const CheckSite& site : s.pass.sites) {
    if (site.not_finite == 0) continue;
    f.add(at(site), fmt::format("{} values are NaN or infinite", site.not_finite),
          "none; the first such site is named");
    return;
  }
}

void stored_as_other_type(const CheckSubject& s, Findings& f) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (!s.json.raw(key).is_string()) continue;
    const std::string said = s.json.text(key, "");
    constexpr std::pair<const char*, DType> kNames[] = {
        {"float32", DType::f32}, {"float16", DType::f16}, {"bfloat16", DType::bf16}};
    for (const auto& [name, type] : kNames) {
      if (said != name) continue;
      for (const CheckTensor& t : s.tensors) {
        if (t.role != Role::matrix || t.value.dtype() == type) continue;
        f.add("config.json: " + std::string(key), said,
              fmt::format("{}, as {} is stored", dtype_name(t.value.dtype()), t.name));
        return;
      }
    }
  }
}

const CheckSite* site_of(const CheckSubject& s, const std::string& module, const char* quantity) {
  for (const CheckSite& site : s.pass.sites)
    if (site.module == module && site.quantity == quantity) return &site;
  return nullptr;
}

void dead_branch(const CheckSubject& s, Findings& f) {
  if (s.untrained()) return;
  for (const CheckSite& branch : s.pass.sites) {
    if (branch.quantity != "branch") continue;
    const CheckSite* stream = site_of(s, branch.module, "stream");
    if (stream && branch.not_finite == 0 && branch.rms < 1e-5 * stream->rms)
      f.add(branch.module, fmt::format("the branch is {:.2g} of the stream", branch.rms / stream->rms),
            "above 1e-5 of it");
  }
}

void rank_collapse(const CheckSubject& s, Findings& f) {
  if (s.pass.made() && s.pass.token_cosine > 0.9999)
    f.add("last hidden states",
          fmt::format("mean cosine {:.5f} between different tokens", s.pass.token_cosine), "below 0.9999");
}

void stream_explodes(const CheckSubject& s, Findings& f) {
  for (const char* side : {"encoder", "decoder"}) {
    const CheckSite* first = site_of(s, fmt::format("{}.0.attention", side), "stream");
    const CheckSite* last = site_of(s, side, "output");
    if (first && last && first->median > 0 && last->median > 1000 * first->median)
      f.add(
          side,
          fmt::format("median of |x| {:.3g} at the start and {:.3g} at the end", first->median, last->median),
          "growth below a thousandfold");
  }
}

constexpr Rule kRules[] = {
    {"PL701", Severity::warning, "Activations come near what f16 can hold.",
     "Kim 2025 (Peri-LN), arXiv 2502.02732", "Run in bf16 or f32; train with a norm on the branch's output.",
     near_overflow},
    {"PL702", Severity::error, "Activations of a model stored in f16 are beyond what f16 can hold.",
     "Kim 2025 (Peri-LN), arXiv 2502.02732; huggingface/transformers, T5 in fp16", "Run in bf16 or f32.",
     overflow_in_half},
    {"PL703", Severity::warning, "Weights are saturated: they were cut when they were converted to f16.",
     "Micikevicius 2017, arXiv 1710.03740", "Convert from the original again, to bf16 or with a scale.",
     saturated_weights},
    {"PL704", Severity::warning, "Weights are larger than f16 can hold.",
     "Micikevicius 2017, arXiv 1710.03740", "Keep them in bf16 or f32.", weights_beyond_half},
    {"PL705", Severity::warning, "The norms' eps is 0 in the type in which the weights are stored.",
     "Micikevicius 2017, arXiv 1710.03740", "Compute the statistics of norms in f32.", eps_is_zero_in_half},
    {"PL706", Severity::note,
     "The stream has massive activations, which 8-bit formats cannot hold beside the rest.",
     "Sun 2024, arXiv 2402.17762", "Quantise by token or leave these columns in 16 bits.",
     massive_activations},
    {"PL707", Severity::error, "The sample text leads to values that are not finite.",
     "Wortsman 2023, arXiv 2309.14322", "Look at the sub-layer that is named.", activations_not_finite},
    {"PL708", Severity::note,
     "The type that config.json names is not the one that the weights are stored in.",
     "transformers, PretrainedConfig: dtype", "Set dtype to the stored type.", stored_as_other_type},
    {"PL709", Severity::warning, "A branch of a trained model adds nothing to its stream.",
     "Sun 2025, arXiv 2502.05795", "Leave the layer out, or look at its norm and its gate.", dead_branch},
    {"PL710", Severity::warning, "The last states of all tokens are the same.", "Dong 2021, arXiv 2103.03404",
     "Look for lost shortcuts; train with smaller branches.", rank_collapse},
    {"PL711", Severity::warning, "The stream grows a thousandfold over the depth.",
     "Sun 2025, arXiv 2502.05795; Takase 2023, arXiv 2312.16903",
     "Scale the output projections by 1/sqrt(2L), or norm the branches.", stream_explodes},
};

}  // namespace

const RuleGroup kPrecisionRules{"precision", kRules};

}  // namespace plumb
