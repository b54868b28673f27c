#include "ops/experts.h"

#include "kernels/elementwise.h"
#include "kernels/experts.h"

namespace plumb::ops {
namespace {

RouterScore kernel_score(Router r) {
  return r == Router::softmax ? RouterScore::softmax : RouterScore::sigmoid;
}

// E * sum of f_e p_e of `tokens` tokens, from the sums over them.
double balance_of(int64_t tokens, const std::vector<double>& assigned,
                  const std::vector<double>& probability) {
  double sum = 0;
  for (size_t e = 0; e < assigned.size(); ++e) sum += assigned[e] * probability[e];
  const auto n = static_cast<double>(tokens);
  return tokens == 0 ? 0 : static_cast<double>(assigned.size()) * sum / (n * n);
}

// Puts one layer's tokens into the balance. Returns the layer's assignments to each expert.
std::vector<double> balanced(Balance& balance, const Tensor& logits, const Routing& r, bool together) {
  const int64_t rows = logits.rows(), experts = logits.width();
  std::vector<double> assigned(experts), probability(experts);
  for (int64_t e = 0; e < experts; ++e) assigned[e] = static_cast<double>(r.offsets[e + 1] - r.offsets[e]);
  add_probabilities(rows, experts, logits.f32(), probability.data());
  if (!together) {
    balance.apart += balance_of(rows, assigned, probability);
    return assigned;
  }
  balance.assigned.resize(experts);
  balance.probability.resize(experts);
  for (int64_t e = 0; e < experts; ++e) {
    balance.assigned[e] += assigned[e];
    balance.probability[e] += probability[e];
  }
  balance.tokens += rows;
  return assigned;
}

// dlogits += weight * E / n^2 * sum over e of a_e P_e, whose a and n are the layer's, or all layers'.
void balance_backward(const Balance& balance, bool together, const std::vector<double>& layer,
                      const Tensor& logits, float* dlogits) {
  const auto tokens = static_cast<double>(together ? balance.tokens : logits.rows());
  std::vector<double> weight = together ? balance.assigned : layer;
  for (double& w : weight) w *= balance.weight * static_cast<double>(weight.size()) / (tokens * tokens);
  probability_backward({.rows = logits.rows(),
                        .experts = logits.width(),
                        .logits = logits.f32(),
                        .weight = weight.data(),
                        .dlogits = dlogits});
}

struct Scores {
  Tensor scores, chosen;  // (N, E), (N, k) i32
};

Scores choose(const Tensor& logits, const RouteOptions& o, Routing& r) {
  const int64_t rows = logits.rows(), experts = logits.width();
  Scores s{Tensor::empty({rows, experts}), Tensor::empty({rows, o.top_k}, DType::i32)};
  r.weights = Tensor::empty({rows, o.top_k});
  route_forward({.rows = rows,
                 .experts = experts,
                 .top_k = o.top_k,
                 .score = kernel_score(o.score),
                 .normalise = o.normalize,
                 .scaling = static_cast<float>(o.scale),
                 .logits = logits.f32(),
                 .selection_bias = o.correction.defined() ? o.correction.f32() : nullptr,
                 .scores = s.scores.f32(),
                 .chosen = s.chosen.data<int32_t>(),
                 .weights = r.weights.f32(),
                 .groups = o.groups,
                 .top_groups = o.top_groups,
                 .group_score = o.group_by == RouterGroup::best ? GroupScore::best : GroupScore::best_two});
  r.offsets.resize(experts + 1);
  r.token = Tensor::empty({rows * o.top_k}, DType::i32);
  r.place = Tensor::empty({rows * o.top_k}, DType::i32);
  group_by_expert({.rows = rows,
                   .experts = experts,
                   .top_k = o.top_k,
                   .chosen = s.chosen.data<int32_t>(),
                   .offsets = r.offsets.data(),
                   .token = r.token.data<int32_t>(),
                   .place = r.place.data<int32_t>()});
  return s;
}

}  // namespace

double Balance::value() const {
  return apart + balance_of(tokens, assigned, probability);
}

Routing route(Context& context, const Tensor& logits, const RouteOptions& o) {
  Routing r;
  const Scores s = choose(logits, o, r);
  std::vector<double> assigned;
  if (context.balance) {
    Balance aside;  // a layer that runs again has been counted
    assigned = balanced(context.again ? aside : *context.balance, logits, r, o.balance_together);
  }
  if (!context.records(logits)) return r;
  r.weights.set_requires_grad();
  context.tape->record([logits, s, o, assigned, balance = context.balance, result = r.weights.gradient()] {
    const GradientTarget d = gradient_target(logits);
    const float* dweights = arrived(result);
    const Tensor none = dweights ? Tensor() : Tensor::zeros(s.chosen.shape());
    route_backward({.rows = logits.rows(),
                    .experts = logits.width(),
                    .top_k = o.top_k,
                    .score = kernel_score(o.score),
                    .normalise = o.normalize,
                    .scaling = static_cast<float>(o.scale),
                    .scores = s.scores.f32(),
                    .chosen = s.chosen.data<int32_t>(),
                    .dweights = dweights ? dweights : none.f32(),
                    .dlogits = d.data,
                    .add = d.add});
    if (balance && balance->weight != 0)
      balance_backward(*balance, o.balance_together, assigned, logits, d.data);
  });
  return r;
}

// An expert of one that has every token, with the weight of a sigmoid router.
Tensor sigmoid_gate(Context& context, const Tensor& logits, const Tensor& x) {
  Context apart = context;
  apart.balance = nullptr;
  return combine(context, x,
                 route(apart, logits, {.top_k = 1, .score = Router::sigmoid, .normalize = false}));
}

Tensor dispatch(Context& context, const Tensor& x, const Routing& r) {
  const int64_t places = r.token.numel();
  Tensor y = Tensor::empty({places, x.width()});
  gather_rows(
      {.rows = places, .width = x.width(), .index = r.token.data<int32_t>(), .x = x.f32(), .y = y.f32()});
  if (!context.records(x)) return y;
  y.set_requires_grad();
  context.tape->record(
      [x = x.without_data(), place = r.place, top_k = r.weights.width(), result = y.gradient()] {
        const float* dy = arrived(result);
        if (!dy) return;
        const GradientTarget dx = gradient_target(x);
        combine_forward({.rows = x.rows(),
                         .width = x.width(),
                         .top_k = top_k,
                         .place = place.data<int32_t>(),
                         .x = dy,
                         .y = dx.data,
                         .add = dx.add});
      });
  return y;
}

Tensor combine(Context& context, const Tensor& x, const Routing& r) {
  const int64_t rows = r.weights.rows(), top_k = r.weights.width();
  Tensor y = Tensor::empty({rows, x.width()});
  combine_forward({.rows = rows,
                   .width = x.width(),
                   .top_k = top_k,
                   .place = r.place.data<int32_t>(),
                   .weights = r.weights.f32(),
                   .x = x.f32(),
                   .y = y.f32()});
  if (!context.records(x) && !context.records(r.weights)) return y;
  y.set_requires_grad();
  context.tape->record([x, weights = r.weights, place = r.place, rows, top_k, result = y.gradient()] {
    const float* dy = arrived(result);
    if (!dy) return;
    Tensor unwanted_x, unwanted_weights;
    const GradientTarget dx = gradient_target_or(x, unwanted_x);
    const GradientTarget dweights = gradient_target_or(weights, unwanted_weights);
    PLUMB_CHECK(!dx.add && !dweights.add, "expert outputs and weights are combined once");
    combine_backward({.rows = rows,
                      .width = x.width(),
                      .top_k = top_k,
                      .place = place.data<int32_t>(),
                      .weights = weights.f32(),
                      .x = x.f32(),
                      .dy = dy,
                      .dx = dx.data,
                      .dweights = dweights.data});
  });
  return y;
}

}  // namespace plumb::ops
