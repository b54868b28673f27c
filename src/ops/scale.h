// Learned factors: on the columns of an activation, on the rows or columns of a weight, on a gate.
#pragma once

#include "ops/linear.h"

namespace plumb::ops {

// y = factor * v[c / group] * x; x (..., C), v (C / group).
struct ColumnFactors {
  Tensor v;
  double factor = 1;
};
Tensor scale_columns(Context& context, const Tensor& x, const ColumnFactors& by);

// The map with the rows of outputs multiplied by factor * v (outputs), and its bias as it is.
LinearWeights scale_outputs(Context& context, const LinearWeights& w, const ColumnFactors& by);

// factor * |v|
Tensor magnitude(Context& context, const Tensor& v, double factor);

}  // namespace plumb::ops
