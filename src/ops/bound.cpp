#include "ops/bound.h"

#include "kernels/elementwise.h"

namespace plumb::ops {
namespace {

struct Kernels {
  void (*forward)(int64_t n, float bound, const float* x, float* y);
  void (*backward)(int64_t n, float bound, const float* x, const float* dy, float* dx, bool add);
};

Tensor bounded(Context& context, const Tensor& x, double by, Kernels kernels) {
  const auto bound = static_cast<float>(by);
  Tensor y = Tensor::empty(x.shape());
  kernels.forward(x.numel(), bound, x.f32(), y.f32());
  if (!context.records(x)) return y;
  y.set_requires_grad();
  context.tape->record([x, bound, kernels, result = y.gradient()] {
    const float* dy = arrived(result);
    if (!dy) return;
    const GradientTarget dx = gradient_target(x);
    kernels.backward(x.numel(), bound, x.f32(), dy, dx.data, dx.add);
  });
  return y;
}

}  // namespace

Tensor softcap(Context& context, const Tensor& x, double cap) {
  return bounded(context, x, cap, {softcap_forward, softcap_backward});
}

Tensor clamp(Context& context, const Tensor& x, double limit) {
  return bounded(context, x, limit, {clamp_forward, clamp_backward});
}

}  // namespace plumb::ops
