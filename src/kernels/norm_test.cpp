#include "kernels/norm.h"

#include <gtest/gtest.h>
#include <omp.h>

#include "kernels/reference.h"
#include "kernels/test_arrays.h"

namespace plumb {
namespace {

using reference::Array;
using reference::Complex;

Array<Complex> complex(const Array<double>& v) {
  return {v.begin(), v.end()};
}

Floats norm_of(NormForward a, const std::vector<double>& x) {
  Floats in(x), y(static_cast<int64_t>(x.size()));
  a.x = in.data();
  a.y = y.data();
  a.width = a.width ? a.width : static_cast<int64_t>(x.size());
  a.rows = static_cast<int64_t>(x.size()) / a.width;
  norm_forward(a);
  return y;
}

// One fused call's arguments with all its arrays, and the oracle's loss sum(dy * y) + sum(dsum * sum).
struct FusedCase {
  reference::NormOptions options;
  int64_t rows;
  float alpha = 0.75f;
  bool gate_vector = false, with_gain = true, with_bias = true;
  Array<double> x, branch, gain, bias, gate, dy, dsum;

  FusedCase(RowNorm kind, int64_t rows_, int64_t width) : options{kind, width}, rows(rows_) {
    options.eps = kind == RowNorm::scale ? 1e-5 : static_cast<double>(1e-5f);
  }
  void fill() {
    const int64_t width = options.width;
    x = random_array(rows * width, 1, 1, 0.5);
    branch = random_array(rows * width, 2);
    gain = random_array(options.kind == RowNorm::scale ? 1 : width, 3, 0.5, 1);
    bias = random_array(width, 4);
    if (options.kind == RowNorm::scale) with_bias = false;
    if (!with_gain) gain.clear();
    if (!with_bias) bias.clear();
    gate = random_array(gate_vector ? width : 1, 5, 0.5, 1);
    dy = random_array(rows * width, 6);
    dsum = random_array(rows * width, 7);
  }
  Array<Complex> sum(const Array<Complex>& xs, const Array<Complex>& branches,
                     const Array<Complex>& gates) const {
    Array<Complex> s(xs.size());
    for (size_t i = 0; i < s.size(); ++i) {
      s[i] = static_cast<double>(alpha) * xs[i] + gates[gate_vector ? i % options.width : 0] * branches[i];
    }
    return s;
  }
  Complex loss(const Array<Complex>& s, const Array<Complex>& gains, const Array<Complex>& biases,
               size_t from = 0) const {
    const Array<Complex> y = reference::norm(options, s, gains, biases);
    Complex total = 0;
    for (size_t i = 0; i < s.size(); ++i) total += dy[from + i] * y[i] + dsum[from + i] * s[i];
    return total;
  }
};

void check_fused(FusedCase c) {
  c.fill();
  const int64_t width = c.options.width, n = c.rows * width;
  Floats x(c.x), branch(c.branch), gain(c.gain), bias(c.bias), gate(c.gate), dy(c.dy), dsum(c.dsum);
  Floats sum(n), y(n), dstream(n, 0), dbranch(n, 0), dgain(gain.size(), 0), dbias(bias.size(), 0),
      dgate(gate.size(), 0);
  std::vector<double> stats(2 * c.rows);
  const Gate g{1, gate.data(), c.gate_vector};
  const float eps = static_cast<float>(c.options.eps), offset = static_cast<float>(c.options.gain_offset);
  const float scale = static_cast<float>(c.options.scale);
  const float* gains = c.with_gain ? gain.data() : nullptr;
  norm_forward({c.options.kind, c.rows, width, x.data(), branch.data(), c.alpha, g, gains,
                c.with_bias ? bias.data() : nullptr, offset, eps, scale, sum.data(), y.data(), stats.data()});
  const auto zs = c.sum(complex(c.x), complex(c.branch), complex(c.gate));
  Array<double> want_sum, want_y, want_stream(n), want_branch(n);
  for (const Complex v : zs) want_sum.push_back(v.real());
  for (const Complex v : reference::norm(c.options, zs, complex(c.gain), complex(c.bias)))
    want_y.push_back(v.real());
  expect_close(sum, want_sum, 1e-6, "sum");
  expect_close(y, want_y, 2e-6, "y");

  NormBackward b{c.options.kind, c.rows,        width, dy.data(), dsum.data(), sum.data(), stats.data(),
                 gains,          offset,        eps,   scale,     c.alpha,     g,          branch.data(),
                 dstream.data(), dbranch.data()};
  b.dgain = c.with_gain ? dgain.data() : nullptr;
  b.dbias = c.with_bias ? dbias.data() : nullptr;
  b.dgate = dgate.data();
  norm_backward(b);
  for (int64_t row = 0; row < c.rows; ++row) {
    const Array<double> s(want_sum.begin() + row * width, want_sum.begin() + (row + 1) * width);
    const auto total = reference::gradient(
        s, [&](const Array<Complex>& z) { return c.loss(z, complex(c.gain), complex(c.bias), row * width); });
    for (int64_t i = 0; i < width; ++i) {
      want_stream[row * width + i] = c.alpha * total[i];
      want_branch[row * width + i] = c.gate[c.gate_vector ? i : 0] * total[i];
    }
  }
  // A row's terms are of the size 1 / deviation and may cancel (width 2: almost wholly).
  double steepest = 1;
  for (int64_t row = 0; row < c.rows; ++row) steepest = std::max(steepest, stats[2 * row + 1]);
  expect_close(dstream, want_stream, 3e-6, "d_stream", steepest);
  expect_close(dbranch, want_branch, 3e-6, "d_branch", steepest);
  const auto want_gain =
      reference::gradient(c.gain, [&](const Array<Complex>& z) { return c.loss(zs, z, complex(c.bias)); });
  const auto want_bias =
      reference::gradient(c.bias, [&](const Array<Complex>& z) { return c.loss(zs, complex(c.gain), z); });
  const auto want_gate = reference::gradient(c.gate, [&](const Array<Complex>& z) {
    return c.loss(c.sum(complex(c.x), complex(c.branch), z), complex(c.gain), complex(c.bias));
  });
  // Sums over rows of terms near 1: rounding grows with the root of their number.
  const double floor = std::sqrt(static_cast<double>(c.rows));
  expect_close(dgain, want_gain, 5e-6, "dgain", floor);
  expect_close(dbias, want_bias, 5e-6, "dbias", floor);
  expect_close(dgate, want_gate, 5e-6, "dgate", floor * std::sqrt(static_cast<double>(width)));

  // B21: the same again on top gives twice each gradient.
  b.add_stream = b.add_branch = b.add_gain = b.add_bias = b.add_gate = true;
  norm_backward(b);
  for (auto& [got, want] : std::vector<std::pair<Floats*, Array<double>>>{{&dstream, want_stream},
                                                                          {&dbranch, want_branch},
                                                                          {&dgain, want_gain},
                                                                          {&dbias, want_bias},
                                                                          {&dgate, want_gate}}) {
    for (double& v : want) v *= 2;
    expect_close(*got, want, 5e-6, "accumulated", floor * steepest * std::sqrt(static_cast<double>(width)));
  }
}

void check_fused_shapes() {
  for (const RowNorm kind : {RowNorm::layer, RowNorm::rms, RowNorm::scale}) {
    for (const auto& [rows, width] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {3, 2}, {2, 5}, {33, 17}, {5, 64}, {65, 31}, {1, 100}, {0, 7}}) {
      SCOPED_TRACE(testing::Message()
                   << "kind " << static_cast<int>(kind) << " shape " << rows << " " << width);
      FusedCase c(kind, rows, width);
      check_fused(c);
      c.gate_vector = true;
      c.options.scale = 0.5;
      c.options.gain_offset = kind == RowNorm::scale ? 0 : 1;
      c.with_bias = false;
      check_fused(c);
      c.with_gain = false;
      check_fused(c);
    }
  }
}

TEST(Norm, FusedResidualAgainstOracle) {
  for_each_target(check_fused_shapes);
}

TEST(Norm, InPlaceBackwardGivesTheSameBits) {
  const int64_t rows = 9, width = 37, n = rows * width;
  Floats x(random_array(n, 1)), gain(random_array(width, 2)), dy(random_array(n, 3)),
      dsum(random_array(n, 4)), y(n);
  std::vector<double> stats(2 * rows);
  NormForward f;
  f.rows = rows, f.width = width, f.x = x.data(), f.gain = gain.data(), f.y = y.data(),
  f.stats = stats.data();
  norm_forward(f);
  Floats apart(n);
  NormBackward b;
  b.rows = rows, b.width = width, b.dy = dy.data(), b.dsum = dsum.data(), b.sum = x.data(),
  b.stats = stats.data();
  b.gain = gain.data(), b.d_stream = apart.data();
  norm_backward(b);
  b.d_stream = dsum.data();
  norm_backward(b);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(dsum[i], apart[i]);
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

TEST(Norm, B01LargeMeanSmallSpread) {
  for_each_target(check_b01);
}

// The gradient keeps the same precision: a mean saved as f32 would lose it.
TEST(Norm, B01GradientOfLargeMeanSmallSpread) {
  const int64_t width = 19;
  FusedCase c(RowNorm::layer, 1, width);
  c.fill();
  for (int64_t i = 0; i < width; ++i) c.x[i] = static_cast<float>(10000 + static_cast<double>(i) * 1e-3);
  Floats x(c.x), gain(c.gain), dy(c.dy), y(width), dx(width);
  double stats[2];
  norm_forward({RowNorm::layer,
                1,
                width,
                x.data(),
                nullptr,
                1,
                {},
                gain.data(),
                nullptr,
                0,
                1e-5f,
                1,
                nullptr,
                y.data(),
                stats});
  NormBackward b{RowNorm::layer, 1, width, dy.data(), nullptr, x.data(), stats, gain.data()};
  b.d_stream = dx.data();
  norm_backward(b);
  c.dsum.assign(width, 0);
  c.options.eps = static_cast<double>(1e-5f);
  expect_close(dx,
               reference::gradient(
                   c.x, [&](const Array<Complex>& z) { return c.loss(z, complex(c.gain), complex(c.bias)); }),
               3e-6, "dx");
}

TEST(Norm, RowsNearTheRangeOfF32) {
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
TEST(Norm, B03SquaresBeyondHalfPrecision) {
  NormForward a;
  a.kind = RowNorm::rms;
  a.eps = 1e-6f;
  Floats y = norm_of(a, std::vector<double>(8, 300.0));
  for (int64_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], 1, 1e-6);
  y = norm_of(a, std::vector<double>(4096, 16.0));
  for (int64_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], 1, 1e-6);
}

TEST(Norm, B04ConstantRowsGiveBetaAndFiniteGradients) {
  for (const float eps : {1e-12f, 1e-8f, 1e-5f}) {
    for (const float value : {0.0f, 7.0f}) {
      Floats x(21, value), bias(random_array(21, 1)), gain(random_array(21, 2)), dy(random_array(21, 3)),
          y(21), dx(21);
      double stats[2];
      norm_forward({RowNorm::layer,
                    1,
                    21,
                    x.data(),
                    nullptr,
                    1,
                    {},
                    gain.data(),
                    bias.data(),
                    0,
                    eps,
                    1,
                    nullptr,
                    y.data(),
                    stats});
      for (int i = 0; i < 21; ++i) ASSERT_EQ(y[i], bias[i]);
      NormBackward b{RowNorm::layer, 1, 21, dy.data(), nullptr, x.data(), stats, gain.data(), 0, eps};
      b.d_stream = dx.data();
      norm_backward(b);
      for (int i = 0; i < 21; ++i) ASSERT_TRUE(std::isfinite(dx[i]));
    }
  }
}

TEST(Norm, B05EpsInsideTheRoot) {
  Floats x(4, 4), y(4), dx(4), dy({1, 2, 3, 6});
  double stats[2];
  norm_forward({RowNorm::layer,
                1,
                4,
                x.data(),
                nullptr,
                1,
                {},
                nullptr,
                nullptr,
                0,
                1e-5f,
                1,
                nullptr,
                y.data(),
                stats});
  NormBackward b{RowNorm::layer, 1, 4, dy.data(), nullptr, x.data(), stats};
  b.d_stream = dx.data();
  norm_backward(b);
  const double want[] = {-632.456, -316.228, 0, 948.683};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(dx[i], want[i], 1e-3);
}

TEST(Norm, B07EpsIsTheOneGiven) {
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

TEST(Norm, B09OnePlusWAddedInF32) {
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

TEST(Norm, B18WeightUsedOnce) {
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

// Every row counts in the parameters' gradients, whatever the blocks; threads change no bit.
TEST(Norm, B20EveryRowCountsForAnyThreads) {
  const int threads = omp_get_max_threads();
  for (const auto& [rows, width] :
       std::vector<std::pair<int64_t, int64_t>>{{52 * 7, 64}, {1025, 17}, {3, 5}, {0, 8}}) {
    const auto x = random_array(rows * width, 1), w = random_array(width, 2),
               g = random_array(rows * width, 3);
    reference::NormOptions o{RowNorm::layer, width};
    std::vector<double> want_gain(width), want_bias(width);
    const auto xhat = reference::norm<double>(o, x, {}, {});
    for (size_t i = 0; i < x.size(); ++i) {
      want_gain[i % width] += g[i] * xhat[i];
      want_bias[i % width] += g[i];
    }
    Floats first_gain(width), first_dx(rows * width);
    for (const int t : {1, 2, 3, 4}) {
      omp_set_num_threads(t);
      Floats in(x), gain(w), dy(g), y(rows * width), dx(rows * width), dgain(width), dbias(width);
      std::vector<double> stats(2 * rows);
      norm_forward({RowNorm::layer,
                    rows,
                    width,
                    in.data(),
                    nullptr,
                    1,
                    {},
                    gain.data(),
                    nullptr,
                    0,
                    1e-5f,
                    1,
                    nullptr,
                    y.data(),
                    stats.data()});
      NormBackward b{RowNorm::layer, rows, width, dy.data(), nullptr, in.data(), stats.data(), gain.data()};
      b.d_stream = dx.data();
      b.dgain = dgain.data();
      b.dbias = dbias.data();
      norm_backward(b);
      expect_close(dgain, want_gain, 3e-6, "dgain", std::sqrt(static_cast<double>(rows)));
      expect_close(dbias, want_bias, 3e-6, "dbias", std::sqrt(static_cast<double>(rows)));
      if (t == 1) first_gain = dgain, first_dx = dx;
      for (int64_t i = 0; i < width; ++i) ASSERT_EQ(dgain[i], first_gain[i]);
      for (int64_t i = 0; i < rows * width; ++i) ASSERT_EQ(dx[i], first_dx[i]);
    }
  }
  omp_set_num_threads(threads);
}

TEST(Norm, ScaleNormFloorAndZeroRow) {
  NormForward a;
  a.kind = RowNorm::scale;
  a.eps = 0.5f;
  Floats y = norm_of(a, {0.1, -0.2, 0});
  EXPECT_NEAR(y[0], 0.2, 1e-7);
  EXPECT_NEAR(y[1], -0.4, 1e-7);
  Floats x({0.1, -0.2, 0}), dy({1, 2, 3}), dx(3), out(3);
  double stats[2];
  norm_forward({RowNorm::scale,
                1,
                3,
                x.data(),
                nullptr,
                1,
                {},
                nullptr,
                nullptr,
                0,
                0.5f,
                1,
                nullptr,
                out.data(),
                stats});
  NormBackward b{RowNorm::scale, 1, 3, dy.data(), nullptr, x.data(), stats, nullptr, 0, 0.5f};
  b.d_stream = dx.data();
  norm_backward(b);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(dx[i], dy[i] / 0.5, 1e-6);
}

}  // namespace
}  // namespace plumb
