// Matrix products. gemm.cpp is the only file that knows oneDNN, and the only one that asks how a weight is
// stored.
//
// Rounding: compute == f32 multiplies in f32. compute == bf16 rounds f32 operands to bf16 first. An operand
// stored in bf16 makes the product a bf16 product (the other operand is rounded too); one stored in f16 is
// widened to f32 exactly. Sums are always f32; their order is the library's, fixed for given shapes, machine
// and thread count. Threads: every product uses all OpenMP threads, or one when called inside a parallel
// region. Callable from any thread. Scratch memory comes from the tensor pool and goes back before the call
// returns.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace plumb {

// A row-major matrix in memory: rows are `ld` elements apart. `transposed`: memory holds the transpose of the
// operand.
struct MatrixOperand {
  const void* data = nullptr;
  DType dtype = DType::f32;  // f32, bf16 or f16
  int64_t ld = 0;            // at least the width of what memory holds
  bool transposed = false;
};

// C (m, n) = A (m, k) · B (k, n) [+ bias (n)] [+ C]. A, B and C may not overlap.
// A linear map y = x Wᵀ with W stored (out, in) has b = {W, dtype, in, transposed = true}.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;  // any may be 0; k == 0 is a sum of nothing: [bias] [+ C]
  MatrixOperand a, b;
  float* c = nullptr;
  int64_t ldc = 0;
  const float* bias = nullptr;
  bool add = false;            // C += A · B [+ bias]; otherwise C is written without being read
  DType compute = DType::f32;  // f32 or bf16
};

void gemm(const Gemm& g);

// The best rate (GF/s, 2 m n k flops a product) that oneDNN reaches now on large products of this dtype with
// every layout left to it: the roof that benchmarks compare with. Takes about a second. compute: f32 or bf16.
// gemm() itself may be above the bf16 roof: where the processor's bf16 instructions are slower than its f32
// ones, it multiplies rounded values in f32.
double gemm_peak(DType compute);

namespace detail {
// For tests: a bf16 product (no f16) by oneDNN's bf16 primitive, which gemm() uses only on processors where
// it pays.
bool bf16_primitive_exists();
void gemm_bf16_primitive(const Gemm& g);
}  // namespace detail

// Threads that a product uses outside a parallel region.
int gemm_threads();

}  // namespace plumb
