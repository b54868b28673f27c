#include "kernels/reduce.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <limits>

#include "kernels/bandwidth.h"
#include "kernels/test_arrays.h"

namespace plumb {
namespace {

void check_sums() {
  for (const int64_t n : {0, 1, 7, 33, 16384, 50001}) {
    const auto a = random_array(n, 1, 2, 0.5), b = random_array(n, 2);
    Floats x(a), y(b);
    double square = 0, product = 0, first = 0, fourth = 0, largest = 0;
    for (int64_t i = 0; i < n; ++i) {
      square += a[i] * a[i];
      product += a[i] * b[i];
      first += a[i];
      fourth += a[i] * a[i] * a[i] * a[i];
      largest = std::max(largest, std::abs(a[i]));
    }
    EXPECT_NEAR(sum_of_squares(n, x.data()), square, 1e-12 * square);
    EXPECT_NEAR(dot(n, x.data(), y.data()), product, 1e-12 * square);
    EXPECT_EQ(max_abs(n, x.data()), static_cast<float>(largest));
    EXPECT_TRUE(all_finite(n, x.data()));
    const Moments m = moments(n, x.data());
    EXPECT_EQ(m.count, n);
    EXPECT_EQ(m.not_finite, 0);
    if (n == 0) continue;
    EXPECT_NEAR(m.mean, first / n, 1e-12 * largest);
    EXPECT_NEAR(m.rms, std::sqrt(square / n), 1e-12 * largest);
    EXPECT_EQ(m.max_abs, largest);
    EXPECT_NEAR(m.kurtosis, fourth * n / (square * square), 1e-9);
  }
}

TEST(Reduce, SumsAgainstOracle) {
  for_each_target(check_sums);
}

void check_not_finite() {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {inf, -inf, std::nanf("")}) {
    for (const int64_t at : {0, 15, 16, 40, 66}) {
      Floats x(67, 1);
      x[at] = bad;
      x[3] = 0;
      EXPECT_FALSE(all_finite(67, x.data())) << bad << " at " << at;
      EXPECT_EQ(std::isnan(max_abs(67, x.data())), std::isnan(bad));
      EXPECT_EQ(moments(67, x.data()).not_finite, 1);
      EXPECT_EQ(moments(67, x.data()).zeros, at == 3 ? 0 : 1);
    }
  }
}

TEST(Reduce, FindsWhatIsNotFinite) {
  for_each_target(check_not_finite);
}

TEST(Reduce, NoOverflowNearTheRangeOfF32) {
  Floats x(40, 3e38f);
  EXPECT_NEAR(std::sqrt(sum_of_squares(40, x.data()) / 40) / 3e38, 1, 1e-6);
  EXPECT_NEAR(moments(40, x.data()).kurtosis, 1, 1e-6);
}

TEST(Reduce, KurtosisOfOneOutlier) {
  Floats x(64, 0);
  EXPECT_EQ(moments(64, x.data()).kurtosis, 0);
  x[5] = -3;
  EXPECT_NEAR(moments(64, x.data()).kurtosis, 64, 1e-9);
}

TEST(Reduce, SameBitsForAnyThreads) {
  Floats x(random_array(300000, 1));
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const double one = sum_of_squares(300000, x.data());
  omp_set_num_threads(3);
  EXPECT_EQ(sum_of_squares(300000, x.data()), one);
  omp_set_num_threads(threads);
}

TEST(Reduce, Median) {
  Floats x({-5, 1, 3});
  EXPECT_EQ(median_abs(3, x.data()), 3);
  EXPECT_EQ(median_abs(2, x.data()), 1);
  EXPECT_EQ(median_abs(0, x.data()), 0);
  Floats y(random_array(200000, 1));
  EXPECT_NEAR(median_abs(200000, y.data()), 0.6745, 0.02);
}

TEST(Reduce, BandwidthIsPlausible) {
  const MemoryBandwidth rate = memory_bandwidth(4 << 20);
  for (const double r : {rate.read, rate.copy, rate.triad}) {
    EXPECT_GT(r, 1e8);
    EXPECT_LT(r, 1e13);
  }
}

}  // namespace
}  // namespace plumb
