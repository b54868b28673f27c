// The residual stream between sub-layers: a value and, while nothing has asked for the sum, the addition that
// is still to be made. So an add and the norm that reads it run as one pass over memory, wherever the norm
// stands. Some placements carry more: ResiDual a second stream, which sums the branches; hyper-connections
// have n streams side by side in the value, (B, T, n C).
#pragma once

#include <optional>

#include "nn/norm.h"

namespace plumb {

class Stream {
 public:
  explicit Stream(Tensor x) : value_(std::move(x)) {}

  // All that it carries from one layer to the next.
  struct State {
    Tensor value;  // (B, T, C)
    Tensor sum;    // the second stream, (B, T, C), or undefined
  };
  explicit Stream(const State& state) : value_(state.value), sum_(state.sum) {}
  State state(Context& context) { return {value(context), sum_}; }

  Tensor value(Context& context);                                                       // (B, T, C)
  Tensor normed(Context& context, const Norm& norm, double s, const Tensor& row_mask);  // s * norm(value)

  void replace(Tensor x);
  // alpha * value + g * branch becomes the value; addition.x is filled in here.
  void add(Context& context, ops::Addition addition);

  // The second stream: starts as factor * value, gains factor * branch.
  void start_sum(Context& context, double factor);
  void add_to_sum(Context& context, const Tensor& branch, double factor);
  const Tensor& sum() const { return sum_; }

 private:
  Tensor value_, sum_;
  std::optional<ops::Addition> pending_;
};

}  // namespace plumb
