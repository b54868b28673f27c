// Rules on norms: eps, gains, and kinds that do not work here.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lab/check.h"

namespace plumb {
namespace {

// What published models of a family have; the first is the usual one.
struct FamilyEps {
  const char *type, *key;
  std::vector<double> published;
};
const std::vector<FamilyEps>& family_eps() {
  static const std::vector<FamilyEps> all{
      {"gpt2", "layer_norm_epsilon", {1e-5}},    {"llama", "rms_norm_eps", {1e-5, 1e-6}},
      {"bert", "layer_norm_eps", {1e-12}},       {"mistral", "rms_norm_eps", {1e-5, 1e-6}},
      {"mixtral", "rms_norm_eps", {1e-5}},       {"qwen2", "rms_norm_eps", {1e-6, 1e-5}},
      {"qwen3", "rms_norm_eps", {1e-6}},         {"gemma", "rms_norm_eps", {1e-6}},
      {"gemma2", "rms_norm_eps", {1e-6}},        {"gemma3_text", "rms_norm_eps", {1e-6}},
      {"olmo2", "rms_norm_eps", {1e-6, 1e-5}},   {"t5", "layer_norm_epsilon", {1e-6}},
      {"bloom", "layer_norm_epsilon", {1e-5}},   {"gptj", "layer_norm_epsilon", {1e-5}},
      {"gpt_neox", "layer_norm_eps", {1e-5}},    {"roberta", "layer_norm_eps", {1e-5, 1e-12}},
      {"distilbert", "layer_norm_eps", {1e-12}}, {"electra", "layer_norm_eps", {1e-12}}};
  return all;
}

void eps_of_family(const CheckSubject& s, Findings& f) {
  for (const FamilyEps& family : family_eps()) {
    if (s.model_type() != family.type) continue;
    const auto judge = [&](const std::string& where, double eps) {
      const bool known = std::any_of(family.published.begin(), family.published.end(),
                                     [&](double e) { return std::abs(eps / e - 1) < 0.01; });
      if (!known)
        f.add(where, fmt::format("{:g}", eps),
              fmt::format("{:g}, as in published models of {}", fmt::join(family.published, " or "),
                          family.type));
    };
    if (!s.recipe()) {
      if (s.json.has(family.key))
        judge(fmt::format("config.json: {}", family.key), s.json.number(family.key, 0));
    } else if (s.config) {
      judge("recipe: norm-eps", s.config->layer.norm_eps);
    }
  }
}

void eps_too_large(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    if (v.layer.norm_eps < 1e-2 || v.layer.norm == NormKind::none) return {};
    return LayerFault{fmt::format("norm_eps = {:g}", v.layer.norm_eps), "1e-12 to 1e-5"};
  });
}

bool is_gain(const CheckTensor& t) {
  return t.role == Role::gain && t.value.numel() > 1 && t.moments.not_finite == 0;
}

double negative_share(const CheckTensor& t) {
  const Tensor wide = t.f32();
  const float* x = wide.f32();
  return static_cast<double>(std::count_if(x, x + wide.numel(), [](float v) { return v < 0; })) /
         static_cast<double>(wide.numel());
}

bool unit_offset(const CheckSubject& s) {
  if (s.config) return s.config->layer.norm_unit_offset;
  const std::string type = s.model_type();
  for (const char* known : {"gemma", "t5gemma", "recurrent_gemma", "nemotron", "qwen3_next"})
    if (type.starts_with(known)) return true;
  return false;
}

// Gains of trained models are small in places, but hardly ever negative; w of 1 + w is spread about 0.
void offset_where_none_is_meant(const CheckSubject& s, Findings& f) {
  if (unit_offset(s)) return;
  int64_t gains = 0, about_zero = 0;
  double mean = 0;
  for (const CheckTensor& t : s.tensors) {
    if (!is_gain(t)) continue;
    ++gains;
    mean += t.moments.mean;
    const bool zeros = t.low == 0 && t.high == 0;
    const double negative = negative_share(t);
    if (zeros || (std::abs(t.moments.mean) < 0.5 && negative > 0.2 && negative < 0.8)) ++about_zero;
  }
  if (gains == 0 || 2 * about_zero <= gains) return;
  f.add("gains of the norms",
        fmt::format("{} of {} are spread about 0, their mean is {:.3g}", about_zero, gains,
                    mean / static_cast<double>(gains)),
        "about 1; as they are, they mean 1 + w");
}

// Only of gains that hardly moved, since those of trained models go anywhere.
void ones_where_an_offset_is_meant(const CheckSubject& s, Findings& f) {
  if (!unit_offset(s)) return;
  int64_t gains = 0, ones = 0;
  for (const CheckTensor& t : s.tensors) {
    if (!is_gain(t)) continue;
    ++gains;
    if (std::abs(t.moments.mean - 1) < 0.05 && t.std() < 0.05) ++ones;
  }
  if (gains == 0 || 2 * ones <= gains) return;
  f.add("gains of the norms", fmt::format("{} of {} are about 1, so that 2 is applied", ones, gains),
        "about 0, as 1 + w is applied");
}

void zero_gains(const CheckSubject& s, Findings& f) {
  for (const CheckTensor& t : s.tensors) {
    if (!is_gain(t) || unit_offset(s)) continue;
    const double zeros = static_cast<double>(t.moments.zeros) / static_cast<double>(t.moments.count);
    if (zeros >= 0.5)
      f.add(t.name, fmt::format("{:.0f} % of the gains are 0", 100 * zeros), "gains that pass the signal");
  }
}

void exploding_gains(const CheckSubject& s, Findings& f) {
  for (const CheckTensor& t : s.tensors) {
    if (is_gain(t) && t.moments.max_abs > 100)
      f.add(t.name, fmt::format("a gain of {:.4g}", t.moments.max_abs), "at most about 100");
  }
}

void batch_norm(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    if (v.layer.norm != NormKind::batch_norm) return {};
    return LayerFault{"norm: batch-norm", "layer-norm or rms-norm"};
  });
}

void bad_running_variance(const CheckSubject& s, Findings& f) {
  for (const CheckTensor& t : s.tensors) {
    if (t.name.ends_with("running_var") && t.low <= 0)
      f.add(t.name, fmt::format("a variance of {:.3g}", t.low), "above 0");
  }
}

void no_norm(const CheckSubject& s, Findings& f) {
  by_layers(s, f, [](const LayerView& v) -> std::optional<LayerFault> {
    const SublayerFormula& y = v.formula;
    const bool none =
        !y.norm_in && !y.norm_inner && !y.norm_branch && !y.norm_out && y.beta == 1;  // T-Fixup has its init
    if (!none || y.gate != GateKind::constant || std::abs(y.gate_value) < 0.5 || v.layers < 4) return {};
    return LayerFault{fmt::format("{} layers of y = x + F(x)", v.layers),
                      "a norm, or a gate that starts at 0"};
  });
}

void dyt_alpha(const CheckSubject& s, Findings& f) {
  for (const CheckTensor& t : s.tensors) {
    if (!s.config || s.config->layer.norm != NormKind::dyt || !t.name.ends_with(".alpha")) continue;
    const double a = t.moments.max_abs;
    if (a < 1e-3 || a > 100) f.add(t.name, fmt::format("alpha = {:.3g}", a), "0.05 to 2");
  }
}

constexpr Rule kRules[] = {
    {"PL201", Severity::warning, "The eps of the norms is not that of the family's published models.",
     "transformers, defaults of the config classes; Zhang and Sennrich 2019, arXiv 1910.07467",
     "Set the family's eps, or keep this one where the weights were trained with it.", eps_of_family},
    {"PL202", Severity::warning, "The eps of the norms is of the size of the variance itself.",
     "Ba 2016, arXiv 1607.06450", "Set an eps of 1e-5 or less.", eps_too_large},
    {"PL203", Severity::error, "Gains are spread about 0: they were stored as w where 1 + w is meant.",
     "Gemma 2, arXiv 2408.00118; ggml-org/llama.cpp, conversion of Gemma",
     "Add 1 to the gains, or set norm_unit_offset.", offset_where_none_is_meant},
    {"PL204", Severity::warning, "Gains are about 1 where 1 + w is applied.", "Gemma 2, arXiv 2408.00118",
     "Subtract 1 from the gains, or clear norm_unit_offset.", ones_where_an_offset_is_meant},
    {"PL205", Severity::error,
     "A norm's gains are 0 in half of the columns or more: what is behind it is dead.",
     "Shleifer 2021 (NormFormer), arXiv 2110.09456",
     "Look at the checkpoint: a norm that was never loaded is one cause.", zero_gains},
    {"PL206", Severity::warning, "A norm's gain has exploded.", "Wortsman 2023, arXiv 2309.14322",
     "Lower the learning rate, and keep weight decay off the gains.", exploding_gains},
    {"PL207", Severity::warning, "BatchNorm in a Transformer depends on the batch and looks at later tokens.",
     "Shen 2020 (PowerNorm), arXiv 2003.07845", "Use layer-norm or rms-norm.", batch_norm},
    {"PL208", Severity::error, "A running variance is not positive.",
     "Ioffe and Szegedy 2015, arXiv 1502.03167", "Take the statistics of a training run.",
     bad_running_variance},
    {"PL209", Severity::warning, "A stack without norms has nothing that keeps the stream in bounds.",
     "Zhang 2019 (Fixup), arXiv 1901.09321; Huang 2020 (T-Fixup)", "Use a norm, or placement re-zero.",
     no_norm},
    {"PL210", Severity::warning, "DyT's alpha has left the range in which tanh does something.",
     "Zhu 2025, arXiv 2503.10622", "Start alpha at 0.5 and train it at a lower rate.", dyt_alpha},
};

}  // namespace

const RuleGroup kNormRules{"norms", kRules};

}  // namespace plumb
