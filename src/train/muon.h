// The direction of a Muon update: Jordan, Jin, Boza, You, Cesista, Newhouse, Bernstein, "Muon: An optimizer
// for hidden layers in neural networks" (2024).
#pragma once

#include "nn/parameter.h"

namespace plumb {

// x (rows, columns), in place: U V^T of its singular value decomposition U S V^T, with singular values
// between about 0.7 and 1.2, by five steps of X <- a X + (b A + c A^2) X, A = X X^T, from X / |X|. Zeros stay
// zeros.
void orthogonalize(int64_t rows, int64_t columns, float* x);

// The same for each map that the matrix p holds (the three of a fused QKV apart), times sqrt(max(1, out /
// in)).
void orthogonalize_parts(const Parameter& p, const Tensor& direction);

}  // namespace plumb
