// A norm with its parameters, of any kind.
#pragma once

#include "nn/builder.h"
#include "ops/norm.h"

namespace plumb {

class Norm {
 public:
  Norm(const Builder& b, const LayerConfig& c, int64_t width);

  ops::NormWeights weights() const;
  Tensor forward(Context& context, const Tensor& x, double s = 1, const Tensor& row_mask = {}) const {
    return ops::norm(context, x, weights(), s, row_mask);
  }

 private:
  NormKind kind_;
  double eps_;
  bool unit_offset_;
  Parameter *gain_ = nullptr, *bias_ = nullptr, *alpha_ = nullptr, *mean_ = nullptr, *variance_ = nullptr;
};

}  // namespace plumb
