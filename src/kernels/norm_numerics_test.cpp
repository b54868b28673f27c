#include "kernels/norm.h"

#include <gtest/gtest.h>

#include "kernels/reference.h"
#include "kernels/test_arrays.h"

namespace plumb {
namespace {

Floats norm_of(NormForward a, const std::vector<double>& x) {
  Floats in(x), y(static_cast<int64_t>(x.size()));
  a.x = in.data();
  a.y = y.data();
  a.width = a.width ? a.width : static_cast<int64_t>(x.size());
  a.rows = static_cast<int64_t>(x.size()) / a.width;
  norm_forward(a);
  return y;
}

void check_b01() {
  for (const double m : {40000.0, 80000.0}) {
    Floats y = norm_of({}, {m, m + 1, m + 2, m + 3});
    const double want[] = {-1.341635, -0.447212, 0.447212, 1.341635};
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(y[i], want[i], 2e-6);
  }
  const double first[] = {-1.341641, -1.341528, -1.341508, -1.331333};
  const double means[] = {0, 100, 1000, 10000};
  for (int k = 0; k < 4; ++k) {
    for (const int64_t width : {16, 768, 4096, 4099}) {
      std::vector<double> x(width);
      for (int64_t i = 0; i < width; ++i)
        x[i] = static_cast<float>(means[k] + static_cast<double>(i % 16) * 1e-3);
      Floats y = norm_of({}, x);
      if (width % 16 == 0) {
        EXPECT_NEAR(y[0], first[k], 2e-6) << means[k] << " " << width;
      }
      reference::NormOptions o{RowNorm::layer, width};
      o.eps = static_cast<double>(1e-5f);
      expect_close(y, reference::norm<double>(o, x, {}, {}), 1e-6, "B01");
    }
  }
}

TEST(NormNumerics, B01LargeMeanSmallSpread) {
  for_each_target(check_b01);
}

TEST(NormNumerics, RowsNearTheRangeOfF32) {
  Floats y = norm_of({}, {3e38, -3e38, 3e38, -3e38, 1e38});
  reference::NormOptions o{RowNorm::layer, 5};
  expect_close(
      y,
      reference::norm<double>(o,
                              {static_cast<float>(3e38), static_cast<float>(-3e38), static_cast<float>(3e38),
                               static_cast<float>(-3e38), static_cast<float>(1e38)},
                              {}, {}),
      1e-6, "layer");
  NormForward rms;
  rms.kind = RowNorm::rms;
  y = norm_of(rms, std::vector<double>(1001, 3e38));
  for (int64_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], 1, 1e-6);
  rms.kind = RowNorm::scale;
  y = norm_of(rms, std::vector<double>(1024, -3e38));
  for (int64_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], -1.0 / 32, 1e-7);
  y = norm_of({}, std::vector<double>(33, 3e38));
  for (int64_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], 0);
}

// B03's rows as f32: squares and their sum beyond f16.
TEST(NormNumerics, B03SquaresBeyondHalfPrecision) {
  NormForward a;
  a.kind = RowNorm::rms;
  a.eps = 1e-6f;
  Floats y = norm_of(a, std::vector<double>(8, 300.0));
  for (int64_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], 1, 1e-6);
  y = norm_of(a, std::vector<double>(4096, 16.0));
  for (int64_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], 1, 1e-6);
}

TEST(NormNumerics, B04ConstantRowsGiveBetaAndFiniteGradients) {
  for (const float eps : {1e-12f, 1e-8f, 1e-5f}) {
    for (const float value : {0.0f, 7.0f}) {
      Floats x(21, value), bias(random_array(21, 1)), gain(random_array(21, 2)), dy(random_array(21, 3)),
          y(21), dx(21);
      double stats[2];
      norm_forward({.rows = 1,
                    .width = 21,
                    .x = x.data(),
                    .gain = gain.data(),
                    .bias = bias.data(),
                    .eps = eps,
                    .y = y.data(),
                    .stats = stats});
      for (int i = 0; i < 21; ++i) ASSERT_EQ(y[i], bias[i]);
      NormBackward b{RowNorm::layer, 1, 21, dy.data(), nullptr, x.data(), stats, gain.data(), 0, eps};
      b.d_stream = dx.data();
      norm_backward(b);
      for (int i = 0; i < 21; ++i) ASSERT_TRUE(std::isfinite(dx[i]));
    }
  }
}

TEST(NormNumerics, B05EpsInsideTheRoot) {
  Floats x(4, 4), y(4), dx(4), dy({1, 2, 3, 6});
  double stats[2];
  norm_forward({.rows = 1, .width = 4, .x = x.data(), .y = y.data(), .stats = stats});
  NormBackward b{RowNorm::layer, 1, 4, dy.data(), nullptr, x.data(), stats};
  b.d_stream = dx.data();
  norm_backward(b);
  const double want[] = {-632.456, -316.228, 0, 948.683};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(dx[i], want[i], 1e-3);
}

TEST(NormNumerics, B07EpsIsTheOneGiven) {
  const double want[] = {0.301511, 0.707107, 1.000000};
  const float eps[] = {1e-5f, 1e-6f, 1e-12f};
  for (const RowNorm kind : {RowNorm::layer, RowNorm::rms}) {
    for (int k = 0; k < 3; ++k) {
      NormForward a;
      a.kind = kind;
      a.eps = eps[k];
      Floats y = norm_of(a, {1e-3, -1e-3, 1e-3, -1e-3, 1e-3, -1e-3});
      for (int i = 0; i < 6; ++i) EXPECT_NEAR(y[i], i % 2 ? -want[k] : want[k], 1e-6);
    }
  }
}

TEST(NormNumerics, B09OnePlusWAddedInF32) {
  Floats gain({0, 0.5, -0.25, 15.8125});
  NormForward a;
  a.kind = RowNorm::rms;
  a.gain = gain.data();
  a.gain_offset = 1;
  a.eps = 1e-12f;
  Floats y = norm_of(a, {1, 1, 1, 1});
  const double want[] = {1, 1.5, 0.75, 16.8125};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(y[i], want[i], 2e-6);
}

std::vector<double> b18(RowNorm kind, float eps, float offset, Floats* dgain) {
  Floats x({1, 2, -1, 3}), w({0.5, -1, 2, 1.5}), dy({0.3, -0.2, 0.7, 1.1}), y(4), dx(4);
  double stats[2];
  norm_forward(
      {kind, 1, 4, x.data(), nullptr, 1, {}, w.data(), nullptr, offset, eps, 1, nullptr, y.data(), stats});
  NormBackward b{kind, 1, 4, dy.data(), nullptr, x.data(), stats, w.data(), offset, eps};
  b.d_stream = dx.data();
  b.dgain = dgain->data();
  norm_backward(b);
  return {dx[0], dx[1], dx[2], dx[3]};
}

TEST(NormNumerics, B18WeightUsedOnce) {
  Floats dgain(4);
  const auto expect = [](const std::vector<double>& got, const std::vector<double>& want) {
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(got[i], want[i], 2e-6);
  };
  expect(b18(RowNorm::rms, 1e-6f, 0, &dgain), {-0.063689, -0.179018, 0.864105, 0.428610});
  expect({dgain[0], dgain[1], dgain[2], dgain[3]}, {0.154919, -0.206559, -0.361478, 1.704112});
  expect(b18(RowNorm::rms, 1e-6f, 1, &dgain), {0.005164, -0.454430, 1.311650, 0.738449});
  expect(b18(RowNorm::layer, 1e-5f, 0, &dgain), {-0.476183, -0.430786, 0.345788, 0.561181});
  expect({dgain[0], dgain[1], dgain[2], dgain[3]}, {-0.050709, -0.101418, -1.064892, 1.301535});
}

TEST(NormNumerics, ZeroRowsAreZeroAndHaveFiniteGradients) {
  for (const RowNorm kind : {RowNorm::layer, RowNorm::rms, RowNorm::scale}) {
    for (const int64_t width : {1, 21}) {
      Floats x(width, 0), dy(random_array(width, 3)), y(width), dx(width);
      double stats[2];
      norm_forward({.kind = kind, .rows = 1, .width = width, .x = x.data(), .y = y.data(), .stats = stats});
      norm_backward({.kind = kind,
                     .rows = 1,
                     .width = width,
                     .dy = dy.data(),
                     .sum = x.data(),
                     .stats = stats,
                     .d_stream = dx.data()});
      for (int64_t i = 0; i < width; ++i) {
        ASSERT_EQ(y[i], 0);
        ASSERT_TRUE(std::isfinite(dx[i]));
      }
    }
  }
}

TEST(NormNumerics, ScaleNormFloor) {
  NormForward a;
  a.kind = RowNorm::scale;
  a.eps = 0.5f;
  Floats y = norm_of(a, {0.1, -0.2, 0});
  EXPECT_NEAR(y[0], 0.2, 1e-7);
  EXPECT_NEAR(y[1], -0.4, 1e-7);
  Floats x({0.1, -0.2, 0}), dy({1, 2, 3}), dx(3), out(3);
  double stats[2];
  norm_forward({.kind = RowNorm::scale,
                .rows = 1,
                .width = 3,
                .x = x.data(),
                .eps = 0.5f,
                .y = out.data(),
                .stats = stats});
  NormBackward b{RowNorm::scale, 1, 3, dy.data(), nullptr, x.data(), stats, nullptr, 0, 0.5f};
  b.d_stream = dx.data();
  norm_backward(b);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(dx[i], dy[i] / 0.5, 1e-6);
}

}  // namespace
}  // namespace plumb
