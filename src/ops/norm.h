// Norms, and the residual add with or without the norm that follows it. All rows are (..., C).
#pragma once

#include <utility>

#include "ops/context.h"
#include "plumb/config.h"

namespace plumb::ops {

struct NormWeights {
  NormKind kind = NormKind::layer_norm;
  double eps = 1e-5;
  bool unit_offset = false;          // the gain stored is w where 1 + w is meant
  Tensor gain;                       // (C); ScaleNorm: (1); undefined without affine
  Tensor bias;                       // (C) or undefined; shift: (1)
  Tensor alpha;                      // (1): DyT
  Tensor running_mean, running_var;  // (C): BatchNorm, changed in training
};

// s * norm(x). `row_mask` (N) u8 or undefined: rows that BatchNorm leaves out.
Tensor norm(Context& context, const Tensor& x, const NormWeights& w, double s = 1,
            const Tensor& row_mask = {});

// What is added to the stream: alpha * x + g * branch.
struct Addition {
  Tensor x;
  Tensor branch;
  double alpha = 1;
  double gate_constant = 1;        // g, where gate is undefined
  Tensor gate;                     // (1) or (C), learned
  bool branch_read_again = false;  // something else reads it too: its gradient needs memory of its own
};

// The sum alone.
Tensor residual(Context& context, const Addition& a);

// {sum, s * norm(sum)} in one pass over memory, or as the plain composition.
std::pair<Tensor, Tensor> residual_norm(Context& context, const Addition& a, const NormWeights& w,
                                        double s = 1, const Tensor& row_mask = {});

// y = x * keep / (1 - p), where training; else x itself. `site` names the place, so that a recomputed pass
// drops the same elements.
Tensor dropout(Context& context, const Tensor& x, double p, uint64_t site);

}  // namespace plumb::ops
