#include "ops/tape.h"

#include "kernels/elementwise.h"

namespace plumb {

void Tape::backward() {
  while (!steps_.empty()) {
    const std::function<void()> step = std::move(steps_.back());
    steps_.pop_back();
    step();
  }
}

GradientTarget gradient_target(const Tensor& t) {
  const auto& gradient = t.gradient();
  if (!gradient) return {};
  if (!gradient->value) gradient->value = std::make_unique<Tensor>(Tensor::empty(t.shape()));
  const bool add = gradient->written;
  gradient->written = true;
  return {gradient->value->f32(), add};
}

GradientTarget gradient_target_or(const Tensor& t, Tensor& scratch) {
  if (t.requires_grad()) return gradient_target(t);
  scratch = Tensor::empty(t.shape());
  return {scratch.f32(), false};
}

void add_gradient(GradientTarget to, int64_t n, const float* dy, float scale) {
  if (!to.data) return;
  linear_combination(n, scale, dy, to.add ? 1.0f : 0.0f, to.add ? to.data : nullptr, to.data);
}

const float* arrived(const std::shared_ptr<Gradient>& gradient) {
  return gradient && gradient->written ? gradient->value->f32() : nullptr;
}

void seed_gradient(const Tensor& t, const Tensor& gradient) {
  PLUMB_CHECK(t.requires_grad() && gradient.numel() == t.numel());
  t.gradient()->value = std::make_unique<Tensor>(gradient.clone());
  t.gradient()->written = true;
}

}  // namespace plumb
