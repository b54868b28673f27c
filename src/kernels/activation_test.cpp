#include "kernels/activation.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/reference.h"
#include "kernels/test_arrays.h"

namespace plumb {
namespace {

void expect_rounded(const std::vector<BFloat16>& rounded, Floats& exact) {
  for (size_t i = 0; i < rounded.size(); ++i) {
    ASSERT_EQ(rounded[i].bits, to_bf16(exact[static_cast<int64_t>(i)]).bits) << i;
  }
}

using reference::Array;
using reference::Complex;

constexpr Activation kKinds[] = {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu};

double slope(Activation kind, double x) {
  return reference::activation(kind, Complex(x, 1e-30)).imag() / 1e-30;
}

// Every scale from denormal to 60, both signs, and 0.
std::vector<double> sweep() {
  std::vector<double> x{0};
  for (double v = 1e-40; v < 60; v *= 1.013) {
    x.push_back(static_cast<float>(v));
    x.push_back(static_cast<float>(-v));
  }
  return x;
}

void check_values() {
  const auto x = sweep();
  const int64_t n = static_cast<int64_t>(x.size());
  for (const Activation kind : kKinds) {
    Floats in(x), dy(n, 1), y(n), dx(n);
    activation_forward({kind, 1, n, in.data(), nullptr, y.data()});
    activation_backward({kind, 1, n, in.data(), nullptr, dy.data(), dx.data()});
    for (int64_t i = 0; i < n; ++i) {
      const double want = reference::activation(kind, x[i]);
      ASSERT_NEAR(y[i], want, 2e-6 * std::max(1.0, std::abs(want)))
          << static_cast<int>(kind) << " at " << x[i];
      ASSERT_NEAR(dx[i], slope(kind, x[i]), 3e-6) << static_cast<int>(kind) << " at " << x[i];
      // Small inputs keep their relative precision: all but relu start as x / 2.
      if (std::abs(x[i]) < 0.1 && std::abs(x[i]) > 1e-37) {
        ASSERT_NEAR(y[i], want, 1e-6 * std::abs(want)) << x[i];
      }
    }
  }
}

TEST(Activation, ValuesAndSlopes) {
  for_each_target(check_values);
}

void check_tails() {
  const float inf = std::numeric_limits<float>::infinity();
  for (const Activation kind : kKinds) {
    const std::vector<double> x{1e30, 3e38, inf, -1e30, -3e38, -inf, 1000, -1000, std::nan("")};
    const int64_t n = static_cast<int64_t>(x.size());
    Floats in(x), dy(n, 1), y(n), dx(n);
    activation_forward({kind, 1, n, in.data(), nullptr, y.data()});
    activation_backward({kind, 1, n, in.data(), nullptr, dy.data(), dx.data()});
    for (const int i : {0, 1, 2, 6}) {
      EXPECT_EQ(y[i], in[i]);
      EXPECT_EQ(dx[i], 1);
    }
    for (const int i : {3, 4, 5, 7}) {
      EXPECT_EQ(y[i], 0);
      EXPECT_EQ(dx[i], 0);
    }
    EXPECT_TRUE(std::isnan(y[8])) << static_cast<int>(kind);
  }
}

TEST(Activation, TailsHaveTheirLimits) {
  for_each_target(check_tails);
}

TEST(Activation, BiasAndItsGradient) {
  for (const auto& [rows, width] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {70, 19}, {0, 3}, {33, 32}}) {
    const auto x = random_array(rows * width, 1), bias = random_array(width, 2),
               g = random_array(rows * width, 3);
    for (const Activation kind : kKinds) {
      Array<double> want_y(rows * width), want_dx(rows * width), want_db(width);
      for (int64_t i = 0; i < rows * width; ++i) {
        const double v = x[i] + bias[i % width];
        want_y[i] = reference::activation(kind, v);
        want_dx[i] = slope(kind, v) * g[i];
        want_db[i % width] += want_dx[i];
      }
      Floats in(x), b(bias), dy(g), y(rows * width), dx(rows * width), db(width);
      activation_forward({kind, rows, width, in.data(), b.data(), y.data()});
      expect_close(y, want_y, 2e-6, "y", 1);
      std::vector<BFloat16> rounded(rows * width);
      activation_forward({kind, rows, width, in.data(), b.data(), nullptr, rounded.data()});
      expect_rounded(rounded, y);
      ActivationBackward back{kind, rows, width, in.data(), b.data(), dy.data(), dx.data(), db.data()};
      activation_backward(back);
      expect_close(dx, want_dx, 3e-6, "dx", 1);
      expect_close(db, want_db, 3e-6, "dbias", std::sqrt(static_cast<double>(rows)));
      back.add_x = back.add_bias = true;  // B21
      activation_backward(back);
      for (auto* w : {&want_dx, &want_db}) {
        for (double& v : *w) v *= 2;
      }
      expect_close(dx, want_dx, 3e-6, "dx twice", 1);
      expect_close(db, want_db, 3e-6, "dbias twice", std::sqrt(static_cast<double>(rows)));
    }
  }
}

TEST(Activation, GatedInOneFusedBuffer) {
  const int64_t rows = 7, width = 21, stride = 2 * width + 3;
  const auto fused = random_array(rows * stride, 1), g = random_array(rows * width, 2);
  for (const Activation kind : kKinds) {
    Floats in(fused), dy(g), y(rows * width), dfused(rows * stride, 0);
    Array<double> want_y(rows * width), want_d(rows * stride);
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t c = 0; c < width; ++c) {
        const double gate = fused[n * stride + c], up = fused[n * stride + width + c], d = g[n * width + c];
        want_y[n * width + c] = reference::activation(kind, gate) * up;
        want_d[n * stride + c] = slope(kind, gate) * up * d;
        want_d[n * stride + width + c] = reference::activation(kind, gate) * d;
      }
    }
    gated_forward({kind, rows, width, in.data(), stride, in.data() + width, stride, y.data()});
    expect_close(y, want_y, 2e-6, "y", 1);
    std::vector<BFloat16> rounded(rows * width);
    gated_forward({kind, rows, width, in.data(), stride, in.data() + width, stride, nullptr, rounded.data()});
    expect_rounded(rounded, y);
    GatedBackward back{kind,
                       rows,
                       width,
                       in.data(),
                       stride,
                       in.data() + width,
                       stride,
                       dy.data(),
                       dfused.data(),
                       stride,
                       dfused.data() + width,
                       stride};
    gated_backward(back);
    expect_close(dfused, want_d, 3e-6, "d", 1);
    back.add = true;  // B21
    gated_backward(back);
    Array<double> twice = want_d;
    for (double& v : twice) v *= 2;
    expect_close(dfused, twice, 3e-6, "twice", 1);
    back.add = false, back.dgate = in.data(), back.dup = in.data() + width;  // over its own inputs
    gated_backward(back);
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t c = 0; c < 2 * width; ++c) ASSERT_NEAR(in[n * stride + c], want_d[n * stride + c], 1e-5);
    }
  }
}

}  // namespace
}  // namespace plumb
