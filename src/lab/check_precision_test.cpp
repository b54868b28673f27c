#include <cmath>

#include "lab/check_cases.h"

namespace plumb::check_test {
namespace {

// Untrained weights of which the feed-forward of the last layer puts out large values.
Change large_branch(float factor, StoredType stored = StoredType::f32) {
  return [=](Made& m) {
    m.stored = stored;
    m.weights = [=](ParameterTable& t) {
      scale(t, "decoder.1.feed_forward.up", factor);
      scale(t, "decoder.1.feed_forward.gate", factor);
      scale(t, "decoder.1.feed_forward.down", factor);
    };
  };
}

Change half_with_eps(double eps) {
  return [=](Made& m) {
    m.stored = StoredType::f16;
    m.config.layer.norm_eps = eps;
  };
}

// One column of every token.
Change column(float value) {
  return weights([=](ParameterTable& t) {
    const Tensor& w = t.find("token_embedding.weight")->value;
    for (int64_t i = 0; i < w.rows(); ++i) w.f32()[i * w.width() + 3] = value;
  });
}

}  // namespace

std::vector<Case> precision_cases() {
  return {
      {"PL701", "near_the_end", large_branch(300), large_branch(10)},
      {"PL702", "beyond", large_branch(1500, StoredType::f16), large_branch(10, StoredType::f16)},
      {"PL703", "saturated",
       [](Made& m) {
         m.stored = StoredType::f16;
         m.weights = [](ParameterTable& t) {
           t.find("decoder.0.attention.query.weight")->value.f32()[3] = 65504;
         };
       },
       [](Made& m) { m.stored = StoredType::f16; }},
      {"PL704", "large",
       weights([](ParameterTable& t) { t.find("decoder.0.attention.query.weight")->value.f32()[3] = 1e5; })},
      {"PL705", "berts_eps", half_with_eps(1e-12), half_with_eps(1e-5)},
      {"PL706", "one_column", column(500), column(0.05f)},
      {"PL707", "overflow", weights([](ParameterTable& t) { scale(t, "decoder.0.feed_forward", 1e20f); })},
      {"PL708", "says_bfloat16",
       [](Made& m) {
         m.config.model_type = "llama";
         m.config.layer = family_default("llama").layer;
         m.config.init = Init::normal;
         m.config_patch = {{"dtype", "bfloat16"}};
       },
       [](Made& m) {
         m.config.model_type = "llama";
         m.config.layer = family_default("llama").layer;
         m.config.init = Init::normal;
         m.stored = StoredType::bf16;
       }},
      {"PL709", "dead_branch", weights([](ParameterTable& t) {
         t.find("decoder.final_norm.gain")->value.f32()[0] = 1.1f;
         scale(t, "decoder.1.attention.output", 1e-6f);
       }),
       weights([](ParameterTable& t) { t.find("decoder.final_norm.gain")->value.f32()[0] = 1.1f; })},
      {"PL710", "one_direction", column(1000), column(0.05f)},
      {"PL711", "thousandfold", large_branch(100), large_branch(10)},
  };
}

}  // namespace plumb::check_test
