#include "kernels/scale.h"

#include <cmath>

#include "base/check.h"
#include "kernels/row_blocks.h"

namespace plumb {
namespace {

void put(float value, float* to, bool add) {
  *to = add ? *to + value : value;
}

void rows_factors_backward(const ScaleBackward& a) {
  for_blocks(a.rows, rows_per_block(a.width), [&](int64_t, int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n) {
      double sum = 0;
      for (int64_t i = n * a.width; i < (n + 1) * a.width; ++i) {
        sum += static_cast<double>(a.dy[i]) * a.x[i];
        if (a.dx) put(a.factor * a.v[n] * a.dy[i], a.dx + i, a.add_x);
      }
      if (a.dv) put(static_cast<float>(a.factor * sum), a.dv + n, a.add_v);
    }
  });
}

}  // namespace

void scale_forward(const ScaleForward& a) {
  PLUMB_CHECK(a.group > 0 && a.width % a.group == 0, "{} columns in groups of {}", a.width, a.group);
  for_blocks(a.rows, rows_per_block(a.width), [&](int64_t, int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n) {
      const float* x = a.x + n * a.width;
      float* y = a.y + n * a.width;
      for (int64_t g = 0; g < a.width; g += a.group) {
        const float by = a.factor * a.v[a.by_row ? n : g / a.group];
        for (int64_t c = g; c < g + a.group; ++c) y[c] = by * x[c];
      }
    }
  });
}

void scale_backward(const ScaleBackward& a) {
  if (a.by_row) return rows_factors_backward(a);
  const int64_t factors = a.width / a.group;
  const ColumnSums sums(a.rows, factors, 1);
  for_blocks(a.rows, kBlockRows, [&](int64_t block, int64_t first, int64_t last) {
    float* sum = sums.cleared_partial(block, 0);
    for (int64_t n = first; n < last; ++n) {
      const int64_t at = n * a.width;
      for (int64_t g = 0; g < factors; ++g) {
        float total = 0;
        for (int64_t i = at + g * a.group; i < at + (g + 1) * a.group; ++i) {
          total += a.dy[i] * a.x[i];
          if (a.dx) put(a.factor * a.v[g] * a.dy[i], a.dx + i, a.add_x);
        }
        sum[g] += total;
      }
    }
  });
  if (a.dv) sums.finish(0, a.dv, a.add_v, a.factor);
}

void shift_forward(int64_t n, const float* x, const float* b, float* y) {
  for_blocks(n, kBlockFloats, [&](int64_t, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) y[i] = x[i] + *b;
  });
}

void shift_backward(int64_t n, const float* dy, float* db, bool add) {
  const double sum = sum_of_blocks(n, [&](int64_t first, int64_t last) {
    double part = 0;
    for (int64_t i = first; i < last; ++i) part += dy[i];
    return part;
  });
  put(static_cast<float>(sum), db, add);
}

void magnitude_forward(int64_t n, const float* x, float factor, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = factor * std::abs(x[i]);
}

void magnitude_backward(const MagnitudeBackward& a) {
  for (int64_t i = 0; i < a.n; ++i) {
    const float sign = static_cast<float>((a.x[i] > 0) - (a.x[i] < 0));
    put(a.factor * sign * a.dy[i], a.dx + i, a.add);
  }
}

}  // namespace plumb
