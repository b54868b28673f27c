#include "kernels/elementwise.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <bit>
#include <limits>

#include "kernels/reference.h"
#include "kernels/test_arrays.h"

namespace plumb {
namespace {

TEST(Elementwise, CombinationAndProduct) {
  for_each_target([] {
    for (const int64_t n : {0, 1, 17, 20000}) {
      const auto x = random_array(n, 1), y = random_array(n, 2);
      std::vector<double> sum(n), scaled(n), product(n);
      for (int64_t i = 0; i < n; ++i) {
        sum[i] = 2.0 * x[i] - 0.5 * y[i];
        scaled[i] = 3.0 * x[i];
        product[i] = sum[i] + x[i] * y[i];
      }
      Floats a(x), b(y), out(n);
      linear_combination(n, 3, a.data(), 0, nullptr, out.data());
      expect_close(out, scaled, 1e-7, "scaled");
      linear_combination(n, 2, a.data(), -0.5f, b.data(), out.data());
      expect_close(out, sum, 1e-7, "sum");
      multiply(n, a.data(), b.data(), out.data(), true);
      expect_close(out, product, 2e-7, "product");
    }
  });
}

void check_residual(int64_t rows, int64_t width, bool vector) {
  const auto x = random_array(rows * width, 1), branch = random_array(rows * width, 2),
             g = random_array(rows * width, 3);
  const auto gate = random_array(vector ? width : 1, 4);
  std::vector<double> want_y(x.size()), want_dx(x.size()), want_db(x.size()), want_dg(gate.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = vector ? i % width : 0;
    want_y[i] = 1.5 * x[i] + gate[c] * branch[i];
    want_dx[i] = 1.5 * g[i];
    want_db[i] = gate[c] * g[i];
    want_dg[c] += branch[i] * g[i];
  }
  Floats in(x), b(branch), dy(g), values(gate), y(rows * width), dx(rows * width), db(rows * width),
      dg(values.size());
  const Gate learned{1, values.data(), vector};
  residual_forward({rows, width, in.data(), b.data(), 1.5f, learned, y.data()});
  expect_close(y, want_y, 2e-7, "y");
  ResidualBackward back{rows, width, dy.data(), b.data(), 1.5f, learned, dx.data(), db.data(), dg.data()};
  residual_backward(back);
  const double floor = std::sqrt(static_cast<double>(rows * width));
  expect_close(dx, want_dx, 1e-7, "dx");
  expect_close(db, want_db, 1e-7, "dbranch");
  expect_close(dg, want_dg, 2e-6, "dgate", floor);
  back.add_x = back.add_branch = back.add_gate = true;  // B21
  residual_backward(back);
  for (auto* w : {&want_dx, &want_db, &want_dg}) {
    for (double& v : *w) v *= 2;
  }
  expect_close(dx, want_dx, 1e-7, "dx twice");
  expect_close(db, want_db, 1e-7, "dbranch twice");
  expect_close(dg, want_dg, 2e-6, "dgate twice", floor);
}

TEST(Elementwise, ResidualWithGates) {
  for (const bool vector : {false, true}) {
    check_residual(67, 19, vector);
    check_residual(0, 5, vector);
    check_residual(1, 1, vector);
    check_residual(3, 64, vector);
  }
}

TEST(Elementwise, BiasAndEveryRowOfItsGradient) {
  for (const auto& [rows, width] :
       std::vector<std::pair<int64_t, int64_t>>{{1025, 17}, {0, 4}, {33, 700}, {1, 1}}) {
    const auto x = random_array(rows * width, 1), bias = random_array(width, 2);
    std::vector<double> want(x.size()), want_d(width);
    for (size_t i = 0; i < x.size(); ++i) {
      want[i] = x[i] + bias[i % width];
      want_d[i % width] += x[i];
    }
    Floats in(x), b(bias), y(rows * width), db(width);
    bias_forward(rows, width, in.data(), b.data(), y.data());
    expect_close(y, want, 1e-7, "y");
    bias_backward(rows, width, in.data(), db.data(), false);
    const double floor = std::sqrt(static_cast<double>(rows));
    expect_close(db, want_d, 1e-6, "dbias", floor);
    bias_backward(rows, width, in.data(), db.data(), true);
    for (double& v : want_d) v *= 2;
    expect_close(db, want_d, 1e-6, "dbias twice", floor);
  }
}

// The mask as its contract words it, element by element.
TEST(Elementwise, DropoutMaskOnEveryTarget) {
  const RandomKey key{0x123456789abcdefull, random_stream(3, 1)};
  for_each_target([&] {
    for (const int64_t n : {0, 1, 5, 63, 64, 257, 40001}) {
      for (const float p : {0.0f, 0.1f, 0.75f}) {
        const auto x = random_array(n, 1);
        Floats in(x), y(n);
        dropout({n, p, key, in.data(), y.data()});
        for (int64_t i = 0; i < n; ++i) {
          const uint32_t word = random_block(key, static_cast<uint64_t>(i / 4))[i % 4];
          const bool drop = static_cast<double>(word) < std::floor(static_cast<double>(p) * 4294967296.0);
          ASSERT_EQ(y[i], drop ? 0.0f : in[i] * (1.0f / (1.0f - p))) << i;
        }
      }
    }
  });
}

// B30: the mean over many elements is that of the input; another stream is another mask; threads change
// nothing.
TEST(Elementwise, B30DropoutKeepsTheMean) {
  const int64_t n = 1 << 18;
  Floats x(n, 1), y(n), z(n);
  dropout({n, 0.5f, {1, 2}, x.data(), y.data()});
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += y[i];
  EXPECT_NEAR(sum / n, 1, 5 / std::sqrt(static_cast<double>(n)));
  dropout({n, 0.5f, {1, 3}, x.data(), z.data()});
  int64_t same = 0;
  for (int64_t i = 0; i < n; ++i) same += y[i] == z[i];
  EXPECT_NEAR(static_cast<double>(same) / n, 0.5, 0.01);
  const int threads = omp_get_max_threads();
  omp_set_num_threads(3);
  dropout({n, 0.5f, {1, 2}, x.data(), z.data(), false});
  omp_set_num_threads(threads);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y[i], z[i]);
  dropout({n, 0.5f, {1, 2}, x.data(), z.data(), true});
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(2 * y[i], z[i]);
}

TEST(Elementwise, DroppedInfinityIsZero) {
  const int64_t n = 64;
  Floats x(n, std::numeric_limits<float>::infinity()), y(n);
  dropout({n, 0.5f, {1, 2}, x.data(), y.data()});
  for (int64_t i = 0; i < n; ++i) ASSERT_FALSE(std::isnan(y[i]));
}

TEST(Elementwise, CastsRoundToNearestEven) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<double> x{0,      -0.0, 1,    1.00390625, 1.01171875, 65504, 65520,
                        3.4e38, inf,  -inf, 1e-8,       6e-8,       1e-40};
  const auto more = random_array(50, 1, 100);
  x.insert(x.end(), more.begin(), more.end());
  const int64_t n = static_cast<int64_t>(x.size());
  Floats in(x), back(n);
  for_each_target([&] {
    std::vector<BFloat16> b(n);
    std::vector<Float16> h(n);
    cast({n, DType::f32, in.data(), DType::bf16, b.data()});
    cast({n, DType::f32, in.data(), DType::f16, h.data()});
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(b[i].bits, to_bf16(in[i]).bits) << in[i];
      ASSERT_EQ(h[i].bits, to_f16(in[i]).bits) << in[i];
    }
    EXPECT_EQ(to_float(b[3]), 1.0f);       // half way, down to even
    EXPECT_EQ(to_float(b[4]), 1.015625f);  // half way, up to even
    EXPECT_EQ(to_float(h[6]), inf);
    cast({n, DType::bf16, b.data(), DType::f32, back.data()});
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(back[i], to_float(b[i]));
    cast({n, DType::f16, h.data(), DType::f32, back.data()});
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(back[i], to_float(h[i]));
    Floats nan(20, std::nanf(""));
    std::vector<BFloat16> nans(20);
    cast({20, DType::f32, nan.data(), DType::bf16, nans.data()});
    for (const BFloat16 v : nans) ASSERT_TRUE(std::isnan(to_float(v)));
  });
}

TEST(Elementwise, RowsByIndex) {
  const int64_t width = 5;
  const auto x = random_array(4 * width, 1);
  Floats in(x), out(3 * width), back(4 * width, 7);
  const std::vector<int32_t> index{2, 0, 3};
  gather_rows({3, width, index.data(), in.data(), out.data()});
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t c = 0; c < width; ++c) ASSERT_EQ(out[r * width + c], in[index[r] * width + c]);
  }
  scatter_rows({3, width, index.data(), out.data(), back.data()});
  for (int64_t i = 0; i < 4 * width; ++i) ASSERT_EQ(back[i], i / width == 1 ? 7.0f : in[i]);
  scatter_rows({3, width, index.data(), out.data(), back.data(), true});
  for (int64_t i = 0; i < 4 * width; ++i) ASSERT_EQ(back[i], i / width == 1 ? 7.0f : 2 * in[i]);
}

}  // namespace
}  // namespace plumb
