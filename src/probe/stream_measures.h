// Several residual streams (hyper-connections, mHC): whether they differ, and what the product of their maps
// from a stack's first sub-layer on lets grow: the composite gain of Xie 2025, 2512.24880.
#pragma once

#include <optional>
#include <vector>

#include "kernels/sinkhorn.h"
#include "tensor/tensor.h"

namespace plumb {

// The products of the maps of at most 64 real rows of a pass through a stack.
class StreamProducts {
 public:
  // The next sub-layer's res (N, n, n); mask (B, T) u8 or undefined.
  void apply(const Tensor& res, const Tensor& mask);
  const std::vector<int64_t>& rows() const { return rows_; }
  const std::vector<StreamProduct>& products() const { return products_; }

 private:
  std::vector<int64_t> rows_;
  std::vector<StreamProduct> products_;
};

// Of one sub-layer, over rows and micro-batches.
struct StreamMeasures {
  double cosine = 0;  // sum over rows of the mean over pairs of streams; a stream of zeros has 0 with any
  int64_t rows = 0;
  std::optional<StreamProduct::Gain> gain;  // the most and the least of any row

  // x (B, T, n C) as the sub-layer receives it; products with its own map applied.
  void add(const StreamProducts& products, const Tensor& x, int64_t n);
};

}  // namespace plumb
