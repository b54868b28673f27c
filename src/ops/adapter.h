// Adapters of a linear map whose matrix W (out, in) stays as it is:
//   LoRA  (Hu 2021, 2106.09685)    y = x Wᵀ + bias + scale dropout(x) Aᵀ Bᵀ
//   DoRA  (Liu 2024, 2402.09353)   y = x' (M / |W + scale B A| (W + scale B A))ᵀ + (x - x') Wᵀ + bias
// with x' = dropout(x). |.| is the length of the weights of each output, a constant of a pass (section 4.3
// there) that follows A and B after each update. A (R, in) and B (out, R), however W is stored.
#pragma once

#include "ops/linear.h"

namespace plumb::ops {

struct AdapterWeights {
  Tensor a, b;                     // (R, in), (out, R)
  Tensor magnitude, inverse_norm;  // (out): M and 1 / |.|; undefined: LoRA
  double scale = 1, dropout = 0;
  uint64_t site = 0;  // of the dropout
};

// The bias of w takes no gradient under DoRA.
Tensor adapted_linear(Context& context, const Tensor& x, const LinearWeights& w,
                      const AdapterWeights& adapter);

// The matrix that stands for both, in f32, stored as W is.
Tensor merged(const LinearWeights& w, const AdapterWeights& adapter);

// 1 / |.|, of DoRA.
void follow(const LinearWeights& w, const AdapterWeights& adapter);

}  // namespace plumb::ops
