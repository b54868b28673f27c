#include <gtest/gtest.h>

#include "kernels/norm.h"
#include "kernels/reference.h"
#include "kernels/test_arrays.h"

namespace plumb {
namespace {

using reference::Array;
using reference::complex;
using reference::Complex;

constexpr double kEps = static_cast<double>(1e-5f);

void check_batch_norm(int64_t rows, int64_t width, bool padded) {
  const auto x = random_array(rows * width, 1, 2, 3), gain = random_array(width, 2, 0.5, 1);
  const auto bias = random_array(width, 3), g = random_array(rows * width, 4);
  std::vector<uint8_t> mask(rows, 1);
  for (int64_t n = 0; padded && n < rows; ++n) mask[n] = n % 3 != 1;
  const auto loss = [&](const Array<Complex>& xs, const Array<Complex>& gains, const Array<Complex>& biases) {
    return reference::weighted_sum(reference::batch_norm(width, kEps, xs, mask, gains, biases), g);
  };
  Floats in(x), w(gain), b(bias), dy(g), y(rows * width), dx(rows * width), dw(width), db(width);
  std::vector<double> stats(2 * width);
  BatchNormForward f;
  f.rows = rows, f.width = width, f.x = in.data(), f.mask = padded ? mask.data() : nullptr;
  f.gain = w.data(), f.bias = b.data(), f.y = y.data(), f.stats = stats.data();
  batch_norm_forward(f);
  expect_close(y, reference::batch_norm<double>(width, kEps, x, mask, gain, bias), 1e-6, "y");
  BatchNormBackward back;
  back.rows = rows, back.width = width, back.x = in.data(), back.mask = f.mask, back.dy = dy.data();
  back.stats = stats.data(), back.gain = w.data();
  back.dx = dx.data(), back.dgain = dw.data(), back.dbias = db.data();
  batch_norm_backward(back);
  Array<double> want[3] = {
      reference::gradient(x, [&](const Array<Complex>& z) { return loss(z, complex(gain), complex(bias)); }),
      reference::gradient(gain, [&](const Array<Complex>& z) { return loss(complex(x), z, complex(bias)); }),
      reference::gradient(bias, [&](const Array<Complex>& z) { return loss(complex(x), complex(gain), z); })};
  Floats* got[3] = {&dx, &dw, &db};
  for (int k = 0; k < 3; ++k) expect_close(*got[k], want[k], 2e-6, "gradient", 1);
  back.add_x = back.add_gain = back.add_bias = true;  // B21
  batch_norm_backward(back);
  for (int k = 0; k < 3; ++k) {
    for (double& v : want[k]) v *= 2;
    expect_close(*got[k], want[k], 2e-6, "twice", 1);
  }
}

TEST(BatchNorm, AgainstOracleWithAndWithoutPadding) {
  for (const bool padded : {false, true}) {
    check_batch_norm(9, 5, padded);
    check_batch_norm(40, 3, padded);
    check_batch_norm(0, 4, padded);
    check_batch_norm(1, 2, padded);
  }
}

// Whatever padding holds, nothing changes.
TEST(BatchNorm, PaddingIsLeftOut) {
  Floats x({1, 2, 3, std::nan(""), 5, 6}), y(6), mean(1, 0), var(1, 1);
  const std::vector<uint8_t> mask{1, 1, 1, 0, 1, 0};
  BatchNormForward f;
  f.rows = 6, f.width = 1, f.x = x.data(), f.mask = mask.data(), f.y = y.data();
  f.running_mean = mean.data(), f.running_var = var.data();
  batch_norm_forward(f);
  // Real rows 1 2 3 5: mean 2.75, variance 2.1875, unbiased 2.916667; momentum 0.1 from (0, 1).
  EXPECT_NEAR(mean[0], 0.275, 1e-6);
  EXPECT_NEAR(var[0], 1.1916667, 1e-6);
  EXPECT_NEAR(y[0], (1 - 2.75) / std::sqrt(2.1875 + 1e-5), 1e-6);
  EXPECT_EQ(y[3], 0);
  EXPECT_EQ(y[5], 0);
}

TEST(BatchNorm, RunningStatisticsOfOneRowAndNone) {
  Floats x(std::vector<double>{4, 7}), y(2), mean(1, 1), var(1, 5);
  const std::vector<uint8_t> one{1, 0}, none{0, 0};
  BatchNormForward f;
  f.rows = 2, f.width = 1, f.x = x.data(), f.mask = none.data(), f.y = y.data();
  f.running_mean = mean.data(), f.running_var = var.data();
  batch_norm_forward(f);
  EXPECT_EQ(mean[0], 1);
  EXPECT_EQ(var[0], 5);
  f.mask = one.data();
  batch_norm_forward(f);
  EXPECT_NEAR(mean[0], 1.3, 1e-6);
  EXPECT_EQ(var[0], 5);
  EXPECT_EQ(y[0], 0);
}

TEST(BatchNorm, EvaluationUsesRunningStatistics) {
  Floats x(std::vector<double>{1, 5}), y(2), mean(1, 2), var(1, 4), dy(std::vector<double>{3, -1}), dx(2),
      gain(1, 3);
  std::vector<double> stats(2);
  BatchNormForward f;
  f.rows = 2, f.width = 1, f.x = x.data(), f.y = y.data(), f.training = false, f.gain = gain.data();
  f.running_mean = mean.data(), f.running_var = var.data(), f.stats = stats.data();
  batch_norm_forward(f);
  EXPECT_NEAR(y[0], -1.5, 1e-5);
  EXPECT_NEAR(y[1], 4.5, 1e-5);
  EXPECT_EQ(mean[0], 2);
  BatchNormBackward back;
  back.rows = 2, back.width = 1, back.x = x.data(), back.dy = dy.data(), back.stats = stats.data();
  back.gain = gain.data(), back.training = false, back.dx = dx.data();
  batch_norm_backward(back);
  EXPECT_NEAR(dx[0], 4.5, 1e-5);
  EXPECT_NEAR(dx[1], -1.5, 1e-5);
}

}  // namespace
}  // namespace plumb
