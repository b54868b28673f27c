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

}  // namespace plumb
