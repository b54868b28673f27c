// Bounds on the numbers of an activation.
#pragma once

#include "kernels/elementwise.h"
#include "ops/context.h"

namespace plumb::ops {

// cap tanh(x / cap), number by number; Gemma 2, 2408.00118.
Tensor softcap(Context& context, const Tensor& x, double cap);

// min(max(x, low), high) + offset; what is cut off takes no gradient.
Tensor clamp(Context& context, const Tensor& x, const Clamp& by);

}  // namespace plumb::ops
