// Token geometry against Jacobi's rotations and straight loops in f64, on sequences with and without padding.
#include "probe/geometry.h"

#include <gtest/gtest.h>

#include <cmath>

#include "probe/sample.h"
#include "probe/slow_measures.h"

namespace plumb::probe_test {
namespace {

std::vector<double> numbers(int64_t n, uint64_t seed) {
  std::vector<double> x;
  for (int64_t i = 0; i < n; ++i) x.push_back(random_normal({seed, 1}, static_cast<uint64_t>(i)));
  return x;
}

TEST(Geometry, EigenvaluesAreThoseOfJacobi) {
  for (const int64_t n : {1, 2, 3, 5, 17, 40}) {
    std::vector<double> a(n * n);
    const auto x = numbers(n * n, 3);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j <= i; ++j) a[i * n + j] = a[j * n + i] = x[i * n + j];
    }
    std::vector<double> expected = jacobi_eigenvalues(a, n);
    std::vector<double> got = symmetric_eigenvalues(a, n);
    std::sort(expected.begin(), expected.end());
    std::sort(got.begin(), got.end());
    for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(got[i], expected[i], 1e-11 * static_cast<double>(n)) << n;
  }
}

TEST(Geometry, EigenvaluesOfSpecialMatrices) {
  std::vector<double> zero(9), identity{1, 0, 0, 0, 1, 0, 0, 0, 1}, ones(9, 1);
  EXPECT_EQ(symmetric_eigenvalues(zero, 3), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(symmetric_eigenvalues(identity, 3), (std::vector<double>{1, 1, 1}));
  std::vector<double> got = symmetric_eigenvalues(ones, 3);
  std::sort(got.begin(), got.end());
  EXPECT_NEAR(got[0], 0, 1e-15);
  EXPECT_NEAR(got[2], 3, 1e-14);
}

TEST(Geometry, IsThatOfTheRealTokens) {
  const int64_t length = 9, width = 5;
  std::vector<float> values;
  for (const double x : numbers(2 * length * width, 8)) values.push_back(static_cast<float>(x + 0.4));
  std::vector<uint8_t> real(2 * length, 1);
  for (const int64_t t : {7, 8, 9, 12}) real[t] = 0;
  const Tensor x = Tensor::of<float>({2, length, width}, values);
  for (const bool masked : {false, true}) {
    const Tensor mask = masked ? Tensor::of<uint8_t>({2, length}, real) : Tensor();
    const Geometry g = token_geometry(x, mask);
    SlowGeometry slow;
    for (int64_t b = 0; b < 2; ++b) {
      std::vector<double> rows;
      int64_t n = 0;
      for (int64_t t = b * length; t < (b + 1) * length; ++t) {
        if (masked && real[t] == 0) continue;
        rows.insert(rows.end(), values.begin() + t * width, values.begin() + (t + 1) * width);
        ++n;
      }
      slow += slow_geometry(rows, n, width);
    }
    ASSERT_EQ(g.sequences, 2);
    EXPECT_NEAR(g.cosine, slow.cosine, 1e-12);
    EXPECT_NEAR(g.residual, slow.residual, 1e-12);
    EXPECT_NEAR(g.rank, slow.rank, 1e-9);
  }
}

TEST(Geometry, OfEqualTokensIsRankOne) {
  const Tensor x = Tensor::of<float>({1, 3, 2}, {1, -2, 1, -2, 1, -2});
  const Geometry g = token_geometry(x, {});
  EXPECT_NEAR(g.cosine, 1, 1e-12);
  EXPECT_NEAR(g.residual, 0, 1e-7);
  EXPECT_NEAR(g.rank, 1, 1e-6);
}

TEST(Geometry, IsLeftOutWhereThereIsNone) {
  EXPECT_EQ(token_geometry(Tensor::of<float>({2, 1, 2}, {1, 2, 3, 4}), {}).sequences, 0);  // a token each
  EXPECT_EQ(token_geometry(Tensor::of<float>({1, 2, 2}, {1, NAN, 3, 4}), {}).sequences, 0);
  EXPECT_EQ(token_geometry(Tensor::of<float>({1, 2, 2}, {0, 0, 0, 0}), {}).sequences, 0);
}

TEST(Sample, OfRowsIsRisingSpreadAndWithoutAPeriod) {
  EXPECT_EQ(sampled_rows(3, 5), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_TRUE(sampled_rows(0, 5).empty());
  const auto rows = sampled_rows(2048, 64);
  std::set<int64_t> within;
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i] / 32, static_cast<int64_t>(i));
    within.insert(rows[i] % 128);
  }
  EXPECT_GT(within.size(), 50u);  // of rows of 128 tokens, nearly every time another position
}

}  // namespace
}  // namespace plumb::probe_test
