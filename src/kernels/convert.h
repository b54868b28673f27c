// Copies a row-major matrix of f32, bf16 or f16 as f32, as the operand of an f32 product.
// Threads: rows are split over OpenMP threads.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace plumb {

struct Widen {
  const void* src = nullptr;
  DType dtype = DType::f32;
  int64_t rows = 0, width = 0, ld = 0;  // elements of src
  bool round_bf16 = false;              // values are rounded to bf16 on the way
  float* dst = nullptr;                 // (rows, width)
  int64_t dst_ld = 0;                   // 0: dense
};

void widen(const Widen& w);

}  // namespace plumb
