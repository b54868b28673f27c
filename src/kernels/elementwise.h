// Elementwise kernels: sums, gates on a residual branch, biases, dropout, casts, rows by index.
// Arrays are contiguous f32 unless said, (N, C) is row-major. Unless said, an output may be the same array as
// an input (not a shifted part of it). `add`: false overwrites the output, true adds to it. Threads: OpenMP
// inside; results do not depend on the number of threads, bit for bit.
#pragma once

#include <cstdint>
#include <limits>

#include "base/random.h"
#include "tensor/dtype.h"

namespace plumb {

// out = a * x + b * y; a null y is a * x alone.
void linear_combination(int64_t n, float a, const float* x, float b, const float* y, float* out);

// out = x * y, or += with add.
void multiply(int64_t n, const float* x, const float* y, float* out, bool add);

// What multiplies a branch before it joins the residual stream: a constant, a learned scalar, or a learned
// vector (C).
struct Gate {
  float constant = 1;             // when `values` is null
  const float* values = nullptr;  // 1 or C numbers
  bool per_column = false;        // `values` holds C numbers

  void fill(int64_t width, float* out) const;  // g of each column
};

// y = alpha * x + g * branch, all (N, C): the residual add where no norm follows.
struct ResidualForward {
  int64_t rows = 0, width = 0;
  const float* x = nullptr;
  const float* branch = nullptr;
  float alpha = 1;
  Gate gate{};
  float* y = nullptr;
};
void residual_forward(const ResidualForward& a);

// dx = alpha * dy, dbranch = g * dy, dgate = sum of dy * branch over rows (and columns for a scalar).
// Each output may be null; dx or dbranch may be dy.
struct ResidualBackward {
  int64_t rows = 0, width = 0;
  const float* dy = nullptr;
  const float* branch = nullptr;  // needed for dgate only
  float alpha = 1;
  Gate gate{};
  float* dx = nullptr;
  float* dbranch = nullptr;
  float* dgate = nullptr;  // (1) or (C)
  bool add_x = false, add_branch = false, add_gate = false;
};
void residual_backward(const ResidualBackward& a);

// y = x + bias, x (N, C), bias (C).
void bias_forward(int64_t rows, int64_t width, const float* x, const float* bias, float* y);
// dbias = column sums of dy (N, C).
void bias_backward(int64_t rows, int64_t width, const float* dy, float* dbias, bool add);

// y = x * keep / (1 - p), or += with add; keep is a function of the key and the element's index only: element
// i is dropped when word i % 4 of random_block(key, i / 4) is below p * 2^32. The backward pass is the same
// call on dy. 0 <= p < 1; p = 0 copies.
struct Dropout {
  int64_t n = 0;
  float p = 0;
  RandomKey key;
  const float* x = nullptr;
  float* y = nullptr;
  bool add = false;
};
void dropout(const Dropout& a);  // dropout.cpp

// y = cap tanh(x / cap), and dx = dy (1 - tanh^2(x / cap)), or += with add; cap > 0. bound.cpp
void softcap_forward(int64_t n, float cap, const float* x, float* y);
void softcap_backward(int64_t n, float cap, const float* x, const float* dy, float* dx, bool add);

// y = min(max(x, low), high) + offset, and dx = dy where low <= x <= high, else 0, or += with add. NaN stays
// NaN. bound.cpp
struct Clamp {
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  float offset = 0;
};
void clamp_forward(int64_t n, Clamp by, const float* x, float* y);
void clamp_backward(int64_t n, Clamp by, const float* x, const float* dy, float* dx, bool add);

// Between f32, bf16 and f16, rounded to nearest even; NaN stays NaN, what is too large becomes infinity. Same
// type: a copy. The arrays do not overlap.
struct Cast {
  int64_t n = 0;
  DType from = DType::f32;
  const void* x = nullptr;
  DType to = DType::f32;
  void* y = nullptr;
};
void cast(const Cast& a);

// Rows by index; the arrays do not overlap. Gather: y[r] = x[index[r]] for r < rows. Scatter: y[index[r]] =
// x[r], where no index comes twice; rows of y that no index names stay as they are. With add both are +=. An
// index is not negative.
struct RowsByIndex {
  int64_t rows = 0, width = 0;
  const int32_t* index = nullptr;  // (rows)
  const float* x = nullptr;
  float* y = nullptr;
  bool add = false;
};
void gather_rows(const RowsByIndex& a);
void scatter_rows(const RowsByIndex& a);

}  // namespace plumb
