#include "ops/experts.h"

#include "kernels/elementwise.h"
#include "kernels/experts.h"

namespace plumb::ops {
namespace {

RouterScore kernel_score(Router r) {
  return r == Router::softmax ? RouterScore::softmax : RouterScore::sigmoid;
}

}  // namespace

Routing route(Context& context, const Tensor& logits, const RouteOptions& o) {
  const int64_t rows = logits.rows(), experts = logits.width();
  const Tensor scores = Tensor::empty({rows, experts}), chosen = Tensor::empty({rows, o.top_k}, DType::i32);
  Routing r;
  r.weights = Tensor::empty({rows, o.top_k});
  route_forward({.rows = rows,
                 .experts = experts,
                 .top_k = o.top_k,
                 .score = kernel_score(o.score),
                 .normalise = o.normalize,
                 .logits = logits.f32(),
                 .scores = scores.f32(),
                 .chosen = chosen.data<int32_t>(),
                 .weights = r.weights.f32()});
  r.offsets.resize(experts + 1);
  r.token = Tensor::empty({rows * o.top_k}, DType::i32);
  r.place = Tensor::empty({rows * o.top_k}, DType::i32);
  group_by_expert({.rows = rows,
                   .experts = experts,
                   .top_k = o.top_k,
                   .chosen = chosen.data<int32_t>(),
                   .offsets = r.offsets.data(),
                   .token = r.token.data<int32_t>(),
                   .place = r.place.data<int32_t>()});
  r.balance_loss =
      load_balance({.rows = rows, .experts = experts, .logits = logits.f32(), .offsets = r.offsets.data()});
  if (!context.records(logits)) return r;
  r.weights.set_requires_grad();
  context.tape->record([logits, scores, chosen, o, offsets = r.offsets, result = r.weights.gradient()] {
    const GradientTarget d = gradient_target(logits);
    const float* dweights = arrived(result);
    const Tensor none = dweights ? Tensor() : Tensor::zeros(chosen.shape());
    route_backward({.rows = logits.rows(),
                    .experts = logits.width(),
                    .top_k = o.top_k,
                    .score = kernel_score(o.score),
                    .normalise = o.normalize,
                    .scores = scores.f32(),
                    .chosen = chosen.data<int32_t>(),
                    .dweights = dweights ? dweights : none.f32(),
                    .dlogits = d.data,
                    .add = d.add});
    if (o.balance != 0) {
      load_balance({.rows = logits.rows(),
                    .experts = logits.width(),
                    .logits = logits.f32(),
                    .offsets = offsets.data(),
                    .coefficient = static_cast<float>(o.balance),
                    .dlogits = d.data});
    }
  });
  return r;
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
