#include "kernels/unit.h"

#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/row_blocks.h"

namespace plumb {
namespace {

double factor(double sum_of_squares) {
  return sum_of_squares > 0 ? 1 / std::sqrt(sum_of_squares) : 1;
}

// x[i] = by * x[i]; returns the square of its whole move.
double scale(const UnitVectors& a, int64_t i, double by) {
  const float before = a.x[i];
  a.x[i] = static_cast<float>(by * before);
  const double move = static_cast<double>(a.x[i]) - before + (a.update ? a.update[i] : 0);
  return move * move;
}

double unit_rows(const UnitVectors& a, int64_t first, int64_t last) {
  double moved = 0;
  for (int64_t r = first; r < last; ++r) {
    double sum = 0;
    for (int64_t i = r * a.width; i < (r + 1) * a.width; ++i) sum += static_cast<double>(a.x[i]) * a.x[i];
    const double by = factor(sum);
    for (int64_t i = r * a.width; i < (r + 1) * a.width; ++i) moved += scale(a, i, by);
  }
  return moved;
}

constexpr int64_t kColumns = 64;

// Columns first .. last - 1, kColumns at most, row by row.
double unit_columns(const UnitVectors& a, int64_t first, int64_t last) {
  std::array<double, kColumns> by{};
  const int64_t end = a.rows * a.width;
  for (int64_t row = 0; row < end; row += a.width) {
    for (int64_t c = first; c < last; ++c) by[c - first] += static_cast<double>(a.x[row + c]) * a.x[row + c];
  }
  for (double& b : by) b = factor(b);
  double moved = 0;
  for (int64_t row = 0; row < end; row += a.width) {
    for (int64_t c = first; c < last; ++c) moved += scale(a, row + c, by[c - first]);
  }
  return moved;
}

void inverse_of_columns(int64_t end, int64_t width, const float* x, int64_t first, int64_t last, float* y) {
  std::array<double, kColumns> sum{};
  for (int64_t row = 0; row < end; row += width) {
    for (int64_t c = first; c < last; ++c) sum[c - first] += static_cast<double>(x[row + c]) * x[row + c];
  }
  for (int64_t c = first; c < last; ++c) {
    const double s = sum[c - first];
    y[c] = s > 0 ? static_cast<float>(1 / std::sqrt(s)) : 0;
  }
}

}  // namespace

double make_unit(const UnitVectors& a) {
  const int64_t count = a.by_column ? a.width : a.rows;
  const int64_t size = a.by_column ? kColumns : rows_per_block(a.width);
  std::vector<double> moved(block_count(count, size));
  for_blocks(count, size, [&](int64_t b, int64_t first, int64_t last) {
    moved[b] = a.by_column ? unit_columns(a, first, last) : unit_rows(a, first, last);
  });
  return std::accumulate(moved.begin(), moved.end(), 0.0);
}

void inverse_lengths(int64_t rows, int64_t width, bool by_column, const float* x, float* y) {
  if (by_column) {
    for_blocks(width, kColumns, [&](int64_t, int64_t first, int64_t last) {
      inverse_of_columns(rows * width, width, x, first, last, y);
    });
    return;
  }
  for_blocks(rows, rows_per_block(width), [&](int64_t, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      double sum = 0;
      for (int64_t i = r * width; i < (r + 1) * width; ++i) sum += static_cast<double>(x[i]) * x[i];
      y[r] = sum > 0 ? static_cast<float>(1 / std::sqrt(sum)) : 0;
    }
  });
}

}  // namespace plumb
