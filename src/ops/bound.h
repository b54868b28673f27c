// Bounds on the numbers of an activation.
#pragma once

#include "ops/context.h"

namespace plumb::ops {

// cap tanh(x / cap), number by number; Gemma 2, 2408.00118.
Tensor softcap(Context& context, const Tensor& x, double cap);

// x within +-limit; what is cut off takes no gradient. MPT, OLMo.
Tensor clamp(Context& context, const Tensor& x, double limit);

}  // namespace plumb::ops
