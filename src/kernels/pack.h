// Copies an operand of a product as bf16, in the layout in which oneDNN's bf16 product reads it. The product
// sums over k; `n` counts what it does not sum over: rows of a left operand, columns of a right one.
// Threads: tiles are split over OpenMP threads.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace plumb {

// panel == 0: dst is (n, k), dense, as a left operand is read.
// panel > 0, a multiple of 16: dst is (ceil(n / panel), ceil(k / 32), 16, panel, 2), as a right operand is
// read: panels of columns, in them tiles of 32 terms, in these the terms 2p and 2p + 1 of a column side by
// side. What lies beyond n and k is zero. oneDNN names it BA16a64b2a, for panels of 64.
struct PackBf16 {
  const void* src = nullptr;
  DType dtype = DType::f32;  // f32, rounded to the nearest bf16, or bf16
  int64_t n = 0, k = 0;
  int64_t ld = 0;             // of src: elements from row to row
  bool k_contiguous = false;  // src is (n, k); otherwise (k, n)
  int64_t panel = 0;
  BFloat16* dst = nullptr;
};

void pack_bf16(const PackBf16& p);

}  // namespace plumb
