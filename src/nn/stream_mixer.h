// The maps between n residual streams and a branch: hyper-connections (Zhu 2024, 2409.19606) and mHC (Xie
// 2025, 2512.24880). With x~ the streams normed without a gain, each by itself (hyper-connections) or as one
// vector of n C (mHC), and theta a learned matrix, what is mapped is a = scale tanh(theta x~) + base or a =
// scale theta x~ + base; kernels/streams.h says how H_pre, H_post and H_res follow from it.
//
// At the start theta is 0, the rows of H_pre sum to 1 and H_post is 1, so that equal streams stay equal and
// each is pre-norm's. H_pre leans on another stream in each sub-layer, or nothing would ever make them
// differ. theta decays, as in the paper; base and scale do not.
#pragma once

#include "nn/linear.h"
#include "ops/streams.h"

namespace plumb {

class StreamMixer {
 public:
  StreamMixer(const Builder& b, const LayerConfig& c, const SublayerFormula& formula, int64_t order);

  ops::StreamMaps maps(Context& context, const Tensor& x) const;  // of x (B, T, n C)

 private:
  MapKind kind_;
  int64_t streams_;
  double eps_;
  Linear theta_;
  Parameter *base_, *scale_;
};

}  // namespace plumb
