// Learned factors on columns or rows of a matrix, and one learned number added to all of it. Any address will
// do; sums are in f64 over fixed blocks.
#pragma once

#include <cstdint>

namespace plumb {

// y[n, c] = factor * v[c / group] * x[n, c], v of width / group numbers; by_row: factor * v[n] * x[n, c].
struct ScaleForward {
  int64_t rows = 0, width = 0;
  int64_t group = 1;  // columns that share a factor; divides the width
  bool by_row = false;
  const float* x = nullptr;
  const float* v = nullptr;
  float factor = 1;
  float* y = nullptr;
};
void scale_forward(const ScaleForward& a);

struct ScaleBackward {
  int64_t rows = 0, width = 0;
  int64_t group = 1;
  bool by_row = false;
  const float* x = nullptr;
  const float* v = nullptr;
  float factor = 1;
  const float* dy = nullptr;
  float* dx = nullptr;  // null: not wanted; the same of dv
  float* dv = nullptr;
  bool add_x = false, add_v = false;
};
void scale_backward(const ScaleBackward& a);

// y = x + *b, and *db = (or +=) the sum of dy.
void shift_forward(int64_t n, const float* x, const float* b, float* y);
void shift_backward(int64_t n, const float* dy, float* db, bool add);

// y = factor * |x|, and dx = (or +=) factor * sign(x) * dy, with sign(0) = 0.
void magnitude_forward(int64_t n, const float* x, float factor, float* y);
struct MagnitudeBackward {
  int64_t n = 0;
  const float* x = nullptr;
  float factor = 1;
  const float* dy = nullptr;
  float* dx = nullptr;
  bool add = false;
};
void magnitude_backward(const MagnitudeBackward& a);

}  // namespace plumb
