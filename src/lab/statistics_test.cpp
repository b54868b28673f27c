// Small-sample statistics against tables and by hand.
#include "lab/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plumb {
namespace {

TEST(Statistics, StudentsQuantilesAreThoseOfTheTables) {
  EXPECT_NEAR(student_t(0.05, 1), 12.706, 2e-3);
  EXPECT_NEAR(student_t(0.05, 2), 4.3027, 1e-4);
  EXPECT_NEAR(student_t(0.05, 10), 2.2281, 1e-4);
  EXPECT_NEAR(student_t(0.01, 4), 4.6041, 1e-4);
  EXPECT_NEAR(student_t(0.05, 1000), 1.9623, 1e-3);
}

TEST(Statistics, IntervalsAreConfidentFromThreeValuesOn) {
  const Interval three = interval({1, 2, 3, NAN});
  EXPECT_TRUE(three.confident);
  EXPECT_EQ(three.count, 3);
  EXPECT_NEAR(three.mean, 2, 1e-12);
  EXPECT_NEAR(three.high - three.mean, 4.3027 / std::sqrt(3.0), 1e-3);
  const Interval two = interval({3, 1});
  EXPECT_FALSE(two.confident);
  EXPECT_EQ(two.low, 1);
  EXPECT_EQ(two.high, 3);
  EXPECT_EQ(interval({}).count, 0);
  EXPECT_TRUE(std::isnan(interval({}).mean));
}

TEST(Statistics, LinesAndPowers) {
  const Line line = fit_line({0, 1, 2, 3}, {1, 3, 5, 8});
  EXPECT_NEAR(line.slope, 2.3, 1e-12);
  EXPECT_NEAR(line.intercept, 0.8, 1e-12);
  EXPECT_NEAR(line.r2, 26.45 / 26.75, 1e-12);
  const Line power = fit_power({1, 2, 4, 8, -1}, {3, 6, 12, 24, 5});
  EXPECT_NEAR(power.slope, 1, 1e-12);
  EXPECT_EQ(power.count, 4);
  EXPECT_TRUE(std::isnan(fit_line({2, 2}, {1, 3}).slope));
}

}  // namespace
}  // namespace plumb
