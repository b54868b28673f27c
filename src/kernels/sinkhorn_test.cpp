#include "kernels/sinkhorn.h"

#include <gtest/gtest.h>

#include "kernels/reference.h"
#include "kernels/test_arrays.h"

namespace plumb {
namespace {

// As the formula says it: divide the matrix itself, columns first.
template <class T>
reference::Array<T> divided(const reference::Array<T>& logits, int64_t n) {
  reference::Array<T> m(n * n);
  for (int64_t i = 0; i < n * n; ++i) m[i] = std::exp(logits[i]);
  for (int64_t t = 0; t < kSinkhornSteps; ++t) {
    for (const bool columns : {true, false}) {
      for (int64_t a = 0; a < n; ++a) {
        T sum = 0;
        for (int64_t b = 0; b < n; ++b) sum += m[columns ? b * n + a : a * n + b];
        for (int64_t b = 0; b < n; ++b) m[columns ? b * n + a : a * n + b] /= sum;
      }
    }
  }
  return m;
}

TEST(Sinkhorn, IsTheDivisionsWrittenOut) {
  for (const int64_t n : {1, 2, 3, 4, 5, 8}) {
    for (const double spread : {0.1, 1.0, 6.0}) {
      const auto logits = random_array(n * n, n, spread);
      const auto want = divided(logits, n);
      std::vector<double> m = logits;
      sinkhorn_forward(n, m.data(), m.data());
      for (int64_t i = 0; i < n * n; ++i) EXPECT_NEAR(m[i], want[i], 1e-13) << n << " at " << i;
    }
  }
}

TEST(Sinkhorn, GradientMatchesTheComplexStep) {
  for (const int64_t n : {1, 2, 3, 4, 5, 8}) {
    for (const double spread : {0.1, 1.0, 6.0}) {
      const auto logits = random_array(n * n, 10 + n, spread), dm = random_array(n * n, 20 + n);
      const auto want = reference::gradient(logits, [&](const reference::Array<reference::Complex>& z) {
        const auto m = divided(z, n);
        reference::Complex sum = 0;
        for (int64_t i = 0; i < n * n; ++i) sum += dm[i] * m[i];
        return sum;
      });
      std::vector<double> got = dm;
      sinkhorn_backward(n, logits.data(), got.data(), got.data());
      for (int64_t i = 0; i < n * n; ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << n << " at " << i;
    }
  }
}

// The published order: rows come last, so their sums are exact; column sums have what 20 steps leave.
TEST(Sinkhorn, RowsSumToOneAndColumnsNearly) {
  std::vector<double> identity(16);
  for (int i = 0; i < 4; ++i) identity[5 * i] = 1;
  std::vector<double> m(16);
  sinkhorn_forward(4, identity.data(), m.data());
  EXPECT_NEAR(m[0], 0.475, 1e-3);
  double worst = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto logits = random_array(16, seed, 1);
    sinkhorn_forward(4, logits.data(), m.data());
    for (int i = 0; i < 4; ++i) {
      double row = 0, column = 0;
      for (int j = 0; j < 4; ++j) row += m[4 * i + j], column += m[4 * j + i];
      EXPECT_NEAR(row, 1, 1e-14);
      worst = std::max(worst, std::abs(column - 1));
    }
  }
  EXPECT_LT(worst, 1e-3);
}

// Logits that exp() could not hold, and rows that are next to nothing beside the others.
TEST(Sinkhorn, FarLogitsAreFinite) {
  for (const std::vector<double>& logits : {std::vector<double>{900, -900, 5, 2000},
                                            {0, 0, -1e5, -1e5},
                                            {-3e38, 3e38, 3e38, -3e38},
                                            {1e4, 1e4, 1e4, 1e4}}) {
    std::vector<double> m(4), d{1, -2, 0.5, 3};
    sinkhorn_forward(2, logits.data(), m.data());
    sinkhorn_backward(2, logits.data(), d.data(), d.data());
    for (int i = 0; i < 2; ++i) EXPECT_NEAR(m[2 * i] + m[2 * i + 1], 1, 1e-12) << logits[0];
    for (const double v : d) EXPECT_TRUE(std::isfinite(v)) << logits[0];
  }
}

TEST(StreamProduct, SumsOfTheProductByHand) {
  StreamProduct p(2);
  EXPECT_EQ(p.gain().amax(), 1);
  const double a[] = {1, 2, 0, 1}, b[] = {1, 0, -3, 1};
  p.apply(a);
  p.apply(b);  // b a = (1 2; -3 -5)
  EXPECT_EQ(p.values()[1], 2);
  EXPECT_EQ(p.values()[3], -5);
  const StreamProduct::Gain g = p.gain();
  EXPECT_EQ(g.largest_row, 8);
  EXPECT_EQ(g.least_row, 3);
  EXPECT_EQ(g.largest_column, 3);
  EXPECT_EQ(g.least_column, 2);
  EXPECT_EQ(g.amax(), 8);
}

// 60 maps of n = 4: I + sigma N grows with depth, its projection does not (2512.24880, the figures of the
// composite gain).
TEST(StreamProduct, FreeMapsGrowAndDoublyStochasticOnesDoNot) {
  for (const auto& [sigma, least] : {std::pair{0.1, 10.0}, {0.3, 1e3}}) {
    double worst_free = 0;
    for (uint64_t seed = 0; seed < 50; ++seed) {
      StreamProduct free(4), mixed(4);
      for (uint64_t layer = 0; layer < 60; ++layer) {
        std::vector<double> map = random_array(16, 1000 * seed + layer, sigma);
        for (int i = 0; i < 4; ++i) map[5 * i] += 1;
        free.apply(map.data());
        sinkhorn_forward(4, map.data(), map.data());
        mixed.apply(map.data());
      }
      worst_free = std::max(worst_free, free.gain().amax());
      const StreamProduct::Gain g = mixed.gain();
      EXPECT_NEAR(g.largest_row, 1, 1e-12);
      EXPECT_NEAR(g.least_row, 1, 1e-12);
      EXPECT_NEAR(g.largest_column, 1, 0.02);
      EXPECT_NEAR(g.least_column, 1, 0.02);
    }
    EXPECT_GT(worst_free, least) << sigma;
  }
}

}  // namespace
}  // namespace plumb
