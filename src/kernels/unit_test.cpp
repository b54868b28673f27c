#include "kernels/unit.h"

#include <gtest/gtest.h>

#include "kernels/test_arrays.h"

namespace plumb {
namespace {

// Against plain loops in f64; the vectors of zeros are the first row and the first column.
void check(int64_t rows, int64_t width, bool by_column) {
  std::vector<double> x = random_array(rows * width, 1), update = random_array(rows * width, 2, 0.1);
  for (int64_t r = 0; r < rows; ++r) x[r * width] = 0;
  for (int64_t c = 0; c < width; ++c) x[c] = 0;
  std::vector<double> want = x;
  for (int64_t v = 0; v < (by_column ? width : rows); ++v) {
    const int64_t length = by_column ? rows : width, first = by_column ? v : v * width;
    const int64_t step = by_column ? width : 1;
    double sum = 0;
    for (int64_t i = 0; i < length; ++i) sum += x[first + i * step] * x[first + i * step];
    for (int64_t i = 0; i < length && sum > 0; ++i) want[first + i * step] /= std::sqrt(sum);
  }
  double moved = 0, alone = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    moved += std::pow(update[i] + want[i] - x[i], 2);
    alone += std::pow(want[i] - x[i], 2);
  }
  Floats here(x), again(x), by(update);
  EXPECT_NEAR(make_unit({rows, width, by_column, here.data(), by.data()}), moved, 1e-6 * moved);
  EXPECT_NEAR(make_unit({rows, width, by_column, again.data(), nullptr}), alone, 1e-6 * alone);
  expect_close(here, want, 1e-7, "x");
}

// Of a matrix whose first row and column are zeros.
void check_lengths(int64_t rows, int64_t width, bool by_column) {
  std::vector<double> x = random_array(rows * width, 3);
  for (int64_t r = 0; r < rows; ++r) x[r * width] = 0;
  for (int64_t c = 0; c < width; ++c) x[c] = 0;
  std::vector<double> want(by_column ? width : rows);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < width; ++c) want[by_column ? c : r] += x[r * width + c] * x[r * width + c];
  }
  for (double& w : want) w = w > 0 ? 1 / std::sqrt(w) : 0;
  Floats here(x), lengths(std::vector<double>(want.size()));
  inverse_lengths(rows, width, by_column, here.data(), lengths.data());
  expect_close(lengths, want, 1e-7, "1 / |x|");
}

TEST(Unit, RowsAndColumns) {
  for (const bool by_column : {false, true}) {
    check(5, 3, by_column);
    check(3, 131, by_column);
    check(301, 70, by_column);
    check_lengths(5, 3, by_column);
    check_lengths(301, 131, by_column);
  }
}

}  // namespace
}  // namespace plumb
