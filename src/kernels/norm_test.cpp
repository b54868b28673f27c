#include "kernels/norm.h"

#include <gtest/gtest.h>
#include <omp.h>

#include "kernels/reference.h"
#include "kernels/test_arrays.h"

namespace plumb {
namespace {

using reference::Array;
using reference::complex;
using reference::Complex;

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
  norm_forward({.kind = c.options.kind,
                .rows = c.rows,
                .width = width,
                .x = x.data(),
                .branch = branch.data(),
                .alpha = c.alpha,
                .gate = g,
                .gain = gains,
                .bias = c.with_bias ? bias.data() : nullptr,
                .gain_offset = offset,
                .eps = eps,
                .scale = scale,
                .sum = sum.data(),
                .y = y.data(),
                .stats = stats.data()});
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

// The gradient keeps the same precision: a mean saved as f32 would lose it.
TEST(Norm, B01GradientOfLargeMeanSmallSpread) {
  const int64_t width = 19;
  FusedCase c(RowNorm::layer, 1, width);
  c.fill();
  for (int64_t i = 0; i < width; ++i) c.x[i] = static_cast<float>(10000 + static_cast<double>(i) * 1e-3);
  Floats x(c.x), gain(c.gain), dy(c.dy), y(width), dx(width);
  double stats[2];
  norm_forward(
      {.rows = 1, .width = width, .x = x.data(), .gain = gain.data(), .y = y.data(), .stats = stats});
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
      norm_forward({.rows = rows,
                    .width = width,
                    .x = in.data(),
                    .gain = gain.data(),
                    .y = y.data(),
                    .stats = stats.data()});
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

}  // namespace
}  // namespace plumb
