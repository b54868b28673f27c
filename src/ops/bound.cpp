#include "ops/bound.h"

namespace plumb::ops {
namespace {

// What two kernels make of x, number by number, as `by` says.
template <class By>
Tensor bounded(Context& context, const Tensor& x, const By& by,
               void (*forward)(int64_t n, By by, const float* x, float* y),
               void (*backward)(int64_t n, By by, const float* x, const float* dy, float* dx, bool add)) {
  Tensor y = Tensor::empty(x.shape());
  forward(x.numel(), by, x.f32(), y.f32());
  if (!context.records(x)) return y;
  y.set_requires_grad();
  context.tape->record([x, by, backward, result = y.gradient()] {
    const float* dy = arrived(result);
    if (!dy) return;
    const GradientTarget dx = gradient_target(x);
    backward(x.numel(), by, x.f32(), dy, dx.data, dx.add);
  });
  return y;
}

}  // namespace

Tensor softcap(Context& context, const Tensor& x, double cap) {
  return bounded<float>(context, x, static_cast<float>(cap), softcap_forward, softcap_backward);
}

Tensor clamp(Context& context, const Tensor& x, const Clamp& by) {
  return bounded<Clamp>(context, x, by, clamp_forward, clamp_backward);
}

}  // namespace plumb::ops
