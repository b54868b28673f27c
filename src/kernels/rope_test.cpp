#include "kernels/rope.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace plumb {
namespace {

std::vector<float> turn(std::vector<float> x, int64_t rotary_dim, bool interleaved, int32_t position,
                        double base = 1e4, bool inverse = false) {
  const RopeTable table = rope_table(rope_frequencies(base, rotary_dim), position + 1);
  const auto dim = static_cast<int64_t>(x.size());
  rope({.x = x.data(),
        .rows = 1,
        .row_stride = dim,
        .heads = 1,
        .head_dim = dim,
        .rotary_dim = rotary_dim,
        .interleaved = interleaved,
        .cos = table.cos.data(),
        .sin = table.sin.data(),
        .positions = &position,
        .inverse = inverse});
  return x;
}

void expect_near(const std::vector<float>& got, const std::vector<double>& right) {
  ASSERT_EQ(got.size(), right.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], right[i], 1e-6) << i;
}

TEST(Rope, B39HalfAndInterleaved) {
  expect_near(turn({1, 2, 3, 4}, 4, true, 1), {-1.142640, 1.922076, 2.959851, 4.029800});
  expect_near(turn({1, 2, 3, 4}, 4, false, 1), {-1.984111, 1.959901, 2.462378, 4.019800});
  EXPECT_EQ(turn({1, 2, 3, 4}, 4, true, 0), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(turn({1, 2, 3, 4}, 4, false, 0), (std::vector<float>{1, 2, 3, 4}));
}

TEST(Rope, B40LatePositionsAreExact) {
  const std::vector<double> frequencies = rope_frequencies(1e4, 32);
  const RopeTable table = rope_table(frequencies, 15963);
  EXPECT_NEAR(1857 * frequencies[1], 1044.267841, 1e-6);
  EXPECT_NEAR(table.cos[1857 * 16 + 1], 0.306693, 1e-6);
  EXPECT_NEAR(table.cos[15962 * 16], -0.908016, 1e-6);
  EXPECT_NEAR(table.cos[257 * 16], std::cos(257.0), 1e-7);
}

TEST(Rope, ProductDependsOnDistanceOnly) {
  std::vector<float> q(20), k(20);
  for (int i = 0; i < 20; ++i) {
    q[i] = static_cast<float>(random_normal({1, 1}, i));
    k[i] = static_cast<float>(random_normal({2, 1}, i));
  }
  for (const bool interleaved : {false, true}) {
    const auto product = [&](int32_t at_q, int32_t at_k) {
      const auto a = turn(q, 20, interleaved, at_q), b = turn(k, 20, interleaved, at_k);
      double sum = 0;
      for (int i = 0; i < 20; ++i) sum += static_cast<double>(a[i]) * b[i];
      return sum;
    };
    EXPECT_NEAR(product(5, 2), product(905, 902), 1e-5);
    EXPECT_GT(std::abs(product(5, 2) - product(5, 3)), 1e-3);
  }
}

TEST(Rope, InverseTurnsBackAndOtherDimsStay) {
  for (const int64_t rotary : {2, 6, 34, 66}) {
    for (const bool interleaved : {false, true}) {
      std::vector<float> x(70);
      for (int i = 0; i < 70; ++i) x[i] = static_cast<float>(random_normal({3, 1}, i));
      const auto turned = turn(x, rotary, interleaved, 77);
      const auto back = turn(turned, rotary, interleaved, 77, 1e4, true);
      EXPECT_NE(turned[0], x[0]);
      for (int i = 0; i < 70; ++i) {
        EXPECT_NEAR(back[i], x[i], 1e-6);
        if (i >= rotary) {
          EXPECT_EQ(turned[i], x[i]);
        }
      }
    }
  }
}

// Strided rows, several heads, gathered positions, an attention factor; against f64 and over vector tails.
TEST(Rope, RowsAndHeads) {
  constexpr int64_t rows = 5, heads = 3, stride = 250;
  for (const int64_t rotary : {8, 38, 80}) {
    for (const bool interleaved : {false, true}) {
      const int64_t half = rotary / 2;
      const std::vector<double> frequencies = rope_frequencies(500.0, rotary);
      const RopeTable table = rope_table(frequencies, 100, 1.5);
      const std::vector<int32_t> positions = {9, 0, 99, 9, 31};
      std::vector<float> x(rows * stride);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random_normal({4, 1}, i));
      const std::vector<float> before = x;
      rope({.x = x.data(),
            .rows = rows,
            .row_stride = stride,
            .heads = heads,
            .head_dim = 80,
            .rotary_dim = rotary,
            .interleaved = interleaved,
            .cos = table.cos.data(),
            .sin = table.sin.data(),
            .positions = positions.data()});
      std::vector<double> right(before.begin(), before.end());
      for (int64_t n = 0; n < rows; ++n) {
        for (int64_t h = 0; h < heads; ++h) {
          for (int64_t i = 0; i < half; ++i) {
            const int64_t start = n * stride + h * 80;
            const int64_t a = start + (interleaved ? 2 * i : i),
                          b = start + (interleaved ? 2 * i + 1 : i + half);
            const double angle = positions[n] * std::pow(500.0, -2.0 * i / rotary);
            right[a] = 1.5 * (before[a] * std::cos(angle) - before[b] * std::sin(angle));
            right[b] = 1.5 * (before[b] * std::cos(angle) + before[a] * std::sin(angle));
          }
        }
      }
      for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], right[i], 2e-6) << i;
    }
  }
}

}  // namespace
}  // namespace plumb
