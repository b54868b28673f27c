// Products of a few rows with a large matrix, as in decoding: the matrix is read once, at the speed of
// memory. The same contract as gemm(), which sends its small products here.
#pragma once

#include "kernels/gemm.h"

namespace plumb {

// Whether gemv() takes the product: few rows, a row-major in f32, b stored in f32, bf16 or f16 in either
// orientation.
bool gemv_suits(const Gemm& g);

// C (m, n) = A (m, k) · B (k, n) [+ bias] [+ C] for a product that gemv_suits(). The split over threads
// depends on the shapes and the thread count only. A bf16 product (see gemm.h) rounds A to bf16.
void gemv(const Gemm& g);

// The same by the calling thread alone, and without rounding: A stays f32 whatever B is stored in.
void gemv_serial(const Gemm& g);

}  // namespace plumb
