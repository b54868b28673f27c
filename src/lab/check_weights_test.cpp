#include <cmath>
#include <limits>

#include "base/file.h"
#include "lab/check_cases.h"
#include "model/safetensors.h"

namespace plumb::check_test {
namespace {

constexpr const char* kQuery = "decoder.1.attention.query.weight";

// An element of a matrix of rank 1.
float outer(int64_t row, int64_t column) {
  return static_cast<float>((1 + row) * (2 + column % 5));
}

// Adds to a folder's weights a head beside the tied table: its bits times `factor`.
void add_head(const std::string& folder, const char* table, float factor) {
  const std::string path = folder + "/model.safetensors";
  std::vector<SavedTensor> tensors;
  {
    const SafetensorsFile file(path);
    for (const auto& e : file.entries()) tensors.push_back({e.name, owned_f32(file.tensor(e)), e.dtype});
    Tensor head = owned_f32(file.tensor(*file.find(table)));
    for (int64_t i = 0; i < head.numel(); ++i) head.f32()[i] *= factor;
    tensors.push_back({"lm_head.weight", head, DType::f32});
  }
  write_safetensors(path, tensors);
}

Change gpt2(float head_factor) {
  return [=](Made& m) {
    const int64_t vocabulary = m.config.vocab_size;
    m.config = family_default("gpt2");
    m.config.vocab_size = vocabulary;
    m.config.eos_ids = {2};
    m.files = [=](const std::string& folder) { add_head(folder, "transformer.wte.weight", head_factor); };
  };
}

Change untied(bool equal) {
  return [=](Made& m) {
    m.config.tied_embeddings = false;
    m.weights = [=](ParameterTable& t) {
      const Tensor &table = t.find("token_embedding.weight")->value, &head = t.find("head.weight")->value;
      if (equal) std::copy_n(table.f32(), table.numel(), head.f32());
    };
  };
}

Change deep_norm(const std::function<void(ParameterTable&)>& change, bool fused = false) {
  return [=](Made& m) {
    m.config.layer.placement = Placement::deep_norm;
    m.config.layer.qkv_fused = fused;
    m.config.decoder_layers = 6;
    m.weights = change;
  };
}

const float kBeta = static_cast<float>(std::pow(48.0, -0.25));  // of DeepNorm at 6 layers

Change gated(Placement placement, const std::function<void(ParameterTable&)>& change) {
  return [=](Made& m) {
    m.config.layer.placement = placement;
    m.trained = true;
    m.weights = change;
  };
}

}  // namespace

std::vector<Case> weight_cases() {
  return {
      {"PL301", "nan", weights([](ParameterTable& t) { t.find(kQuery)->value.f32()[5] = NAN; })},
      {"PL301", "infinite", weights([](ParameterTable& t) { t.find(kQuery)->value.f32()[5] = INFINITY; })},
      {"PL302", "zeros", weights([](ParameterTable& t) { fill(t, kQuery, 0); })},
      {"PL302", "half", weights([](ParameterTable& t) { fill(t, kQuery, 0.5); })},
      {"PL303", "copied_layer", weights([](ParameterTable& t) {
         const Tensor& from = t.find("decoder.0.attention.query.weight")->value;
         std::copy_n(from.f32(), from.numel(), t.find(kQuery)->value.f32());
       })},
      {"PL304", "outer_product", weights([](ParameterTable& t) {
         const Tensor& w = t.find(kQuery)->value;
         for (int64_t i = 0; i < w.numel(); ++i) w.f32()[i] = outer(i / w.width(), i % w.width());
       }),
       [](Made& m) {  // maps between streams start at 0
         m.config.layer.placement = Placement::mhc;
         m.weights = [](ParameterTable& t) {
           const Tensor& w = t.find("decoder.1.attention.maps.weight")->value;
           for (int64_t i = 0; i < w.numel(); ++i) w.f32()[i] = 1e-4f * outer(i / w.width(), i % w.width());
         };
       }},
      {"PL305", "misses_v", deep_norm([](ParameterTable& t) { scale(t, "attention.value", 1 / kBeta); }),
       deep_norm({})},
      {"PL305", "touches_q_and_k", deep_norm([](ParameterTable& t) {
         scale(t, "attention.query", kBeta);
         scale(t, "attention.key", kBeta);
       }),
       deep_norm({})},
      {"PL305", "fused_as_one",
       deep_norm(
           [](ParameterTable& t) {
             for (int i = 0; i < 6; ++i) {
               const Tensor& w = t.find("decoder." + std::to_string(i) + ".attention.qkv.weight")->value;
               for (int64_t j = 0; j < w.numel() * 2 / 3; ++j) w.f32()[j] *= kBeta;
             }
           },
           true),
       deep_norm({}, true)},
      {"PL306", "twice_as_large", weights([](ParameterTable& t) { scale(t, "attention.query", 2); })},
      {"PL307", "normal", recipe([](ModelConfig& c, TrainOptions&) {
         c.layer.placement = Placement::deep_norm;
         c.init = Init::normal;
       }),
       recipe([](ModelConfig& c, TrainOptions&) { c.layer.placement = Placement::deep_norm; })},
      {"PL308", "never_moved", gated(Placement::re_zero, {}),
       gated(Placement::re_zero, [](ParameterTable& t) { fill(t, "decoder.1.feed_forward.gate", 0.1f); })},
      {"PL309", "huge",
       gated(Placement::layer_scale, [](ParameterTable& t) { fill(t, "decoder.1.attention.gate", 50); }),
       gated(Placement::layer_scale, {})},
      {"PL310", "scaled_twice",
       [](Made& m) {
         m.config.decoder_layers = 5;
         m.weights = [](ParameterTable& t) { scale(t, "decoder.3.feed_forward.down", 30); };
       },
       [](Made& m) {
         m.config.decoder_layers = 5;
         m.weights = [](ParameterTable& t) { scale(t, "decoder.3.feed_forward.down", 5); };
       }},
      {"PL311", "dead_units", weights([](ParameterTable& t) {
         const Tensor& w = t.find("decoder.0.feed_forward.up.weight")->value;
         std::fill_n(w.f32(), 5 * w.width(), 0.0f);
       })},
      {"PL311", "dead_inputs", weights([](ParameterTable& t) {  // as (in, out) files have dead units
         const Tensor& w = t.find("decoder.0.feed_forward.down.weight")->value;
         for (int64_t i = 0; i < w.numel(); ++i) w.f32()[i] *= i % w.width() < 5 ? 0.0f : 1.0f;
       })},
      {"PL312", "other_head", gpt2(1.5), gpt2(1)},
      {"PL313", "equal_head", untied(true), untied(false)},
      {"PL314", "normal_at_24", recipe([](ModelConfig& c, TrainOptions&) {
         c.decoder_layers = 24;
         c.init = Init::normal;
       }),
       recipe([](ModelConfig& c, TrainOptions&) { c.decoder_layers = 24; })},
  };
}

}  // namespace plumb::check_test
