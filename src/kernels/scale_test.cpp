#include "kernels/scale.h"

#include <gtest/gtest.h>

#include "kernels/test_arrays.h"

namespace plumb {
namespace {

// Against the sums written out in f64, first overwriting, then adding (B21).
void check_scale(int64_t rows, int64_t width, int64_t group, bool by_row) {
  const auto x = random_array(rows * width, 1), g = random_array(rows * width, 2);
  const int64_t factors = by_row ? rows : width / group;
  const auto v = random_array(factors, 3, 0.5, 1);
  const double factor = 0.75;
  Floats in(x), by(v), dy(g), y(rows * width), dx(rows * width), dv(factors);
  scale_forward({rows, width, group, by_row, in.data(), by.data(), 0.75f, y.data()});
  std::vector<double> want_y(x.size()), want_dx(x.size()), want_dv(factors);
  for (int64_t i = 0; i < rows * width; ++i) {
    const int64_t k = by_row ? i / width : i % width / group;
    want_y[i] = factor * v[k] * x[i];
    want_dx[i] = factor * v[k] * g[i];
    want_dv[k] += factor * x[i] * g[i];
  }
  ScaleBackward back{rows,      width, group,     by_row,    in.data(),
                     by.data(), 0.75f, dy.data(), dx.data(), dv.data()};
  scale_backward(back);
  // f32 sums of `group` terms within a row, then f64: relative to what a sum of that many may be.
  const double floor = std::sqrt(static_cast<double>(rows * width)) + 1;
  expect_close(y, want_y, 1e-6, "y");
  expect_close(dx, want_dx, 1e-6, "dx");
  expect_close(dv, want_dv, 2e-6, "dv", floor);
  back.add_x = back.add_v = true;
  scale_backward(back);
  for (double& w : want_dx) w *= 2;
  for (double& w : want_dv) w *= 2;
  expect_close(dx, want_dx, 1e-6, "dx twice");
  expect_close(dv, want_dv, 2e-6, "dv twice", floor);
}

TEST(Scale, ColumnsGroupsAndRows) {
  check_scale(5, 3, 1, false);
  check_scale(70, 24, 8, false);
  check_scale(33, 17, 17, false);
  check_scale(0, 4, 2, false);
  check_scale(9, 301, 1, true);
}

TEST(Shift, AddsOneNumber) {
  const auto x = random_array(1000, 1), g = random_array(1000, 2);
  Floats in(x), b(std::vector<double>{0.5}), dy(g), y(1000), db(std::vector<double>{1});
  shift_forward(1000, in.data(), b.data(), y.data());
  double sum = 0;
  std::vector<double> want(1000);
  for (int i = 0; i < 1000; ++i) {
    want[i] = x[i] + 0.5;
    sum += g[i];
  }
  expect_close(y, want, 1e-6, "y");
  shift_backward(1000, dy.data(), db.data(), true);
  EXPECT_NEAR(db[0], 1 + sum, 1e-4);
  shift_backward(1000, dy.data(), db.data(), false);
  EXPECT_NEAR(db[0], sum, 1e-4);
}

TEST(Magnitude, ValueAndSlope) {
  Floats x(std::vector<double>{-2, 0, 3}), dy(std::vector<double>{1, 5, 2}), y(3), dx(3);
  magnitude_forward(3, x.data(), 0.5f, y.data());
  magnitude_backward({3, x.data(), 0.5f, dy.data(), dx.data(), false});
  for (const auto& [i, value, slope] : {std::tuple{0, 1.0, -0.5}, {1, 0.0, 0.0}, {2, 1.5, 1.0}}) {
    EXPECT_EQ(y[i], value);
    EXPECT_EQ(dx[i], slope);
  }
}

}  // namespace
}  // namespace plumb
