// The residual stream between sub-layers: a value and, while nothing has asked for the sum, the addition that
// is still to be made. So an add and the norm that reads it run as one pass over memory, wherever the norm
// stands.
#pragma once

#include <optional>

#include "nn/norm.h"

namespace plumb {

class Stream {
 public:
  explicit Stream(Tensor x) : value_(std::move(x)) {}

  Tensor value(Context& context);                                                       // (B, T, C)
  Tensor normed(Context& context, const Norm& norm, double s, const Tensor& row_mask);  // s * norm(value)

  void replace(Tensor x);
  // alpha * value + g * branch becomes the value; addition.x is filled in here.
  void add(Context& context, ops::Addition addition);

 private:
  Tensor value_;
  std::optional<ops::Addition> pending_;
};

}  // namespace plumb
