#include "lab/check_cases.h"

namespace plumb::check_test {
namespace {

Change mixture(int64_t experts, int64_t chosen, const std::function<void(ParameterTable&)>& change = {}) {
  return [=](Made& m) {
    m.config.layer.experts = experts;
    m.config.layer.experts_per_token = chosen;
    m.config.layer.norm = NormKind::layer_norm;
    m.config.layer.norm_bias = true;
    m.weights = change;
  };
}

constexpr const char* kRouter = "decoder.0.feed_forward.router.weight";

// The norm before the experts gives every token the same first column, and the router reads only that.
void route_all_to(ParameterTable& t, const std::vector<float>& logits) {
  const Tensor& w = t.find(kRouter)->value;
  std::fill_n(w.f32(), w.numel(), 0.0f);
  t.find("decoder.0.feed_forward.norm_in.gain")->value.f32()[0] = 0;
  t.find("decoder.0.feed_forward.norm_in.bias")->value.f32()[0] = 1;
  for (size_t e = 0; e < logits.size(); ++e) w.f32()[static_cast<int64_t>(e) * w.width()] = logits[e];
}

}  // namespace

std::vector<Case> expert_cases() {
  return {
      {"PL501", "more_than_there_are", layer([](LayerConfig& l) {
         l.experts = 4;
         l.experts_per_token = 5;
       }),
       layer([](LayerConfig& l) {
         l.experts = 4;
         l.experts_per_token = 2;
       })},
      {"PL501", "file",
       [](Made& m) {
         m.config_patch = {{"model_type", "mixtral"}, {"num_local_experts", 8}, {"num_experts_per_tok", 9}};
       },
       [](Made& m) {
         m.config_patch = {{"model_type", "mixtral"}, {"num_local_experts", 8}, {"num_experts_per_tok", 2}};
       }},
      {"PL502", "never_chosen",
       mixture(3, 1,
               [](ParameterTable& t) {
                 route_all_to(t, {3, 2, 1});
               }),
       mixture(3, 1)},
      {"PL503", "always_chosen",
       mixture(4, 1,
               [](ParameterTable& t) {
                 route_all_to(t, {1, 2, 9, 3});
               }),
       mixture(4, 1)},
      {"PL504", "copies",
       mixture(4, 2,
               [](ParameterTable& t) {
                 for (const char* part : {"up", "gate", "down"}) {
                   const std::string head = "decoder.1.feed_forward.experts.";
                   const std::string tail = std::string(".") + part + ".weight";
                   const Tensor& from = t.find(head + "0" + tail)->value;
                   std::copy_n(from.f32(), from.numel(), t.find(head + "2" + tail)->value.f32());
                 }
               }),
       mixture(4, 2)},
      {"PL505", "equal_rows", mixture(4, 2, [](ParameterTable& t) { fill(t, kRouter, 0.01f); }),
       mixture(4, 2)},
      {"PL505", "equal_rows_apart",
       mixture(4, 2,
               [](ParameterTable& t) {
                 const Tensor& w = t.find(kRouter)->value;
                 std::copy_n(w.f32(), w.width(), w.f32() + 3 * w.width());
               }),
       mixture(4, 2)},
      {"PL506", "no_balance", recipe([](ModelConfig& c, TrainOptions&) {
         c.layer.experts = 8;
         c.router_aux = 0;
       }),
       recipe([](ModelConfig& c, TrainOptions&) { c.layer.experts = 8; })},
      {"PL507", "all_of_them", mixture(4, 4), mixture(4, 2)},
  };
}

}  // namespace plumb::check_test
