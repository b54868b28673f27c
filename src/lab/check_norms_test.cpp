#include <cmath>

#include "lab/check_cases.h"

namespace plumb::check_test {
namespace {

void each_gain(ParameterTable& table, const std::function<float(int64_t)>& value) {
  for (const auto& p : table.all()) {
    if (p->role != Role::gain || p->value.numel() == 1) continue;
    for (int64_t i = 0; i < p->value.numel(); ++i) p->value.f32()[i] = value(i);
  }
}

// 0.3 cos of something without a period: spread about 0.
float spread(int64_t i) {
  return 0.3f * static_cast<float>(std::cos(1.7 * static_cast<double>(i)));
}

Change normed(NormKind kind, const std::function<void(ParameterTable&)>& change = {}) {
  return [=](Made& m) {
    m.config.layer.norm = kind;
    m.weights = change;
  };
}

}  // namespace

std::vector<Case> norm_cases() {
  const auto llama_eps = [](double eps) {
    return [eps](Made& m) {
      m.config.model_type = "llama";
      m.config.layer = family_default("llama").layer;
      m.config.layer.norm_eps = eps;
      m.config.init = Init::normal;
    };
  };
  const auto offset = [](const std::function<float(int64_t)>& value) {
    return [value](Made& m) {
      m.config.layer.norm_unit_offset = true;
      m.weights = [value](ParameterTable& t) { each_gain(t, value); };
    };
  };
  return {
      {"PL201", "llama_with_berts", llama_eps(1e-12), llama_eps(1e-6)},
      {"PL201", "recipe", recipe([](ModelConfig& c, TrainOptions&) {
         c = family_default("gpt2");
         c.vocab_size = 99;
         c.layer.norm_eps = 1e-6;
       }),
       recipe([](ModelConfig& c, TrainOptions&) {
         c = family_default("gpt2");
         c.vocab_size = 99;
       })},
      {"PL202", "tenth", layer([](LayerConfig& l) { l.norm_eps = 0.1; }), layer([](LayerConfig&) {})},
      {"PL203", "spread_about_0", weights([](ParameterTable& t) { each_gain(t, spread); }),
       weights([](ParameterTable& t) { each_gain(t, [](int64_t i) { return 1 + spread(i); }); })},
      {"PL203", "small_but_positive_gains_are_sound",
       weights([](ParameterTable& t) { each_gain(t, spread); }),
       weights([](ParameterTable& t) { each_gain(t, [](int64_t i) { return 0.05f + 0.1f * spread(i); }); })},
      {"PL203", "offset_is_meant", weights([](ParameterTable& t) { each_gain(t, spread); }), offset(spread)},
      {"PL204", "ones", offset([](int64_t) { return 1.0f; }), offset([](int64_t) { return 0.0f; })},
      {"PL205", "one_dead_norm",
       weights([](ParameterTable& t) { fill(t, "decoder.1.attention.norm_in.gain", 0); })},
      {"PL206", "hundreds",
       weights([](ParameterTable& t) { t.find("decoder.final_norm.gain")->value.f32()[3] = -512; })},
      {"PL207", "batch_norm", normed(NormKind::batch_norm), normed(NormKind::layer_norm)},
      {"PL208", "zero_variance",
       normed(NormKind::batch_norm,
              [](ParameterTable& t) { fill(t, "decoder.0.attention.norm_in.running_var", 0); }),
       normed(NormKind::batch_norm)},
      {"PL209", "no_norm", recipe([](ModelConfig& c, TrainOptions&) {
         c.decoder_layers = 8;
         c.layer.norm = NormKind::none;
       }),
       recipe([](ModelConfig& c, TrainOptions&) {
         c.decoder_layers = 8;
         c.layer.placement = Placement::re_zero;
       })},
      {"PL210", "saturated",
       normed(NormKind::dyt, [](ParameterTable& t) { fill(t, "decoder.0.attention.norm_in.alpha", 500); }),
       normed(NormKind::dyt)},
  };
}

}  // namespace plumb::check_test
