// The tape of reverse-mode differentiation. An op computes its result, and records what turns the result's
// gradient into its inputs' gradients. backward() runs the records newest first and drops each, and with it
// what it saved.
//
// The rule for gradients, stated once: the first writer of a gradient overwrites, every later one adds.
// Kernels get that as `add`. So no gradient is ever cleared by a pass over memory, and accumulation over
// micro-batches is the same rule: a parameter's gradient stays written until the optimizer marks it
// unwritten. Threads: a tape belongs to one thread; ops use OpenMP inside.
#pragma once

#include <functional>
#include <vector>

#include "tensor/tensor.h"

namespace plumb {

class Tape {
 public:
  void record(std::function<void()> backward) { steps_.push_back(std::move(backward)); }
  void backward();
  bool empty() const { return steps_.empty(); }

 private:
  std::vector<std::function<void()>> steps_;
};

struct GradientTarget {
  float* data = nullptr;  // null: nobody wants it
  bool add = false;
};

// Where a backward pass writes the gradient of `t`; marks it written. {null} if t takes none.
GradientTarget gradient_target(const Tensor& t);

// The same, or memory in `scratch` where nobody wants the gradient but the kernel writes it (frozen
// neighbours).
GradientTarget gradient_target_or(const Tensor& t, Tensor& scratch);

// Gives the target, of n numbers, scale * dy. Nothing if nobody wants it.
void add_gradient(GradientTarget to, int64_t n, const float* dy, float scale = 1);

// The gradient that arrived at a result, or null if nothing downstream used it.
const float* arrived(const std::shared_ptr<Gradient>& gradient);

// Gives the seed gradient of a result (tests; losses seed their own).
void seed_gradient(const Tensor& t, const Tensor& gradient);

}  // namespace plumb
