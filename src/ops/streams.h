// Several residual streams and the maps between them and a branch: hyper-connections (2409.19606) and mHC
// (2512.24880). n streams of width C stand side by side in the rows of x, (..., n C).
#pragma once

#include "kernels/streams.h"
#include "ops/context.h"

namespace plumb::ops {

// (..., C) to (..., n C): every stream starts as x.
Tensor replicate(Context& context, const Tensor& x, int64_t n);
// (..., n C) to (..., C): the mean of the streams.
Tensor mean_of_streams(Context& context, const Tensor& x, int64_t n);

// The maps of each row: of N rows, pre and post (N, n), res (N, n, n).
struct StreamMaps {
  Tensor pre, post, res;
  int64_t streams() const { return pre.width(); }
};
struct MapWeights {
  MapKind kind = MapKind::free;
  Tensor base;   // (2n + n²)
  Tensor scale;  // (3)
};
// From z of kernels/streams.h, (..., n, 2 + n) or (..., 2n + n²).
StreamMaps stream_maps(Context& context, const Tensor& z, const MapWeights& w, int64_t n);

// sum_j pre[j] x[j]: (..., n C) to (..., C)
Tensor read_streams(Context& context, const Tensor& x, const StreamMaps& maps);

// sum_j res[i, j] x[j] + gate post[i] branch, for each stream i: (..., n C)
struct StreamWrite {
  Tensor x, branch;
  StreamMaps maps;
  double gate = 1;
};
Tensor write_streams(Context& context, const StreamWrite& w);

}  // namespace plumb::ops
