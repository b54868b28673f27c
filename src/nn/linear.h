// A linear map with its parameters: weight (out, in) or (in, out), optional bias.
#pragma once

#include <vector>

#include "nn/builder.h"
#include "ops/linear.h"

namespace plumb {

class Linear {
 public:
  // Parts of the outputs that are separate matrices with an init gain each: one, or Q, K and V in one.
  struct Part {
    int64_t outputs = 0;
    double gain = 1;
  };
  Linear(const Builder& b, int64_t inputs, const std::vector<Part>& parts, bool bias);

  ops::LinearWeights weights() const;
  Tensor forward(Context& context, const Tensor& x) const { return ops::linear(context, x, weights()); }

 private:
  Parameter* weight_;
  Parameter* bias_ = nullptr;
};

}  // namespace plumb
