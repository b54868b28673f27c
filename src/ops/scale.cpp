#include "ops/scale.h"

#include "kernels/scale.h"

namespace plumb::ops {
namespace {

Tensor scaled(Context& context, const Tensor& x, const ColumnFactors& by, bool by_row) {
  const int64_t factors = by.v.numel(), group = by_row ? 1 : x.width() / factors;
  PLUMB_CHECK(by_row ? factors == x.rows() : factors > 0 && factors * group == x.width(), "{} factors for {}",
              factors, x.shape().str());
  const auto factor = static_cast<float>(by.factor);
  Tensor y = Tensor::empty(x.shape());
  scale_forward({.rows = x.rows(),
                 .width = x.width(),
                 .group = group,
                 .by_row = by_row,
                 .x = x.f32(),
                 .v = by.v.f32(),
                 .factor = factor,
                 .y = y.f32()});
  if (!context.records(x) && !context.records(by.v)) return y;
  y.set_requires_grad();
  context.tape->record([x, v = by.v, factor, group, by_row, result = y.gradient()] {
    const float* dy = arrived(result);
    if (!dy) return;
    const GradientTarget dx = gradient_target(x), dv = gradient_target(v);
    scale_backward({.rows = x.rows(),
                    .width = x.width(),
                    .group = group,
                    .by_row = by_row,
                    .x = x.f32(),
                    .v = v.f32(),
                    .factor = factor,
                    .dy = dy,
                    .dx = dx.data,
                    .dv = dv.data,
                    .add_x = dx.add,
                    .add_v = dv.add});
  });
  return y;
}

}  // namespace

Tensor scale_columns(Context& context, const Tensor& x, const ColumnFactors& by) {
  return scaled(context, x, by, false);
}

LinearWeights scale_outputs(Context& context, const LinearWeights& w, const ColumnFactors& by) {
  PLUMB_CHECK(by.v.numel() == w.outputs(), "{} factors for {} outputs", by.v.numel(), w.outputs());
  return {scaled(context, w.weight, by, !w.in_out), w.bias, w.in_out};
}

Tensor magnitude(Context& context, const Tensor& v, double factor) {
  const auto by = static_cast<float>(factor);
  Tensor y = Tensor::empty(v.shape());
  magnitude_forward(v.numel(), v.f32(), by, y.f32());
  if (!context.records(v)) return y;
  y.set_requires_grad();
  context.tape->record([v, by, result = y.gradient()] {
    const float* dy = arrived(result);
    if (!dy) return;
    const GradientTarget dv = gradient_target(v);
    magnitude_backward({.n = v.numel(), .x = v.f32(), .factor = by, .dy = dy, .dx = dv.data, .add = dv.add});
  });
  return y;
}

}  // namespace plumb::ops
