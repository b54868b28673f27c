#include "infer/logits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "plumb/error.h"

namespace plumb {
namespace {

using Row = std::vector<float>;

TEST(Logits, GreedyTakesTheLowestIdOfEquals) {
  EXPECT_EQ(greedy(Row{1, 3, 3, 2}), 1);
  EXPECT_EQ(greedy(Row{-0.0f, 0.0f}), 0);
}

TEST(Logits, DamagedOrEmptyRowsAreErrors) {
  EXPECT_NO_THROW(check_finite(Row{1, -3e38f}));
  EXPECT_THROW(check_finite(Row{1, NAN}), Error);
  EXPECT_THROW(check_finite(Row{HUGE_VALF, 1}), Error);
  EXPECT_THROW(greedy(Row{kOut, kOut}), Error);
  EXPECT_THROW(greedy(Row{}), Error);
  EXPECT_THROW(sample(Row{kOut}, 0.5), Error);
}

TEST(Logits, TemperatureScalesDifferences) {
  Row row = {1, 2, kOut, 4};
  scale_temperature(row, 0.5);
  EXPECT_FLOAT_EQ(row[3] - row[0], 6);
  EXPECT_FLOAT_EQ(row[3] - row[1], 4);
  EXPECT_EQ(row[2], kOut);
  scale_temperature(row, 1e-300);  // all but the likeliest vanish, nothing overflows
  EXPECT_EQ(sample(row, 0.999), 3);
}

// Chi-square of draws against softmax: the 99.9 % bound for 7 degrees of freedom is 24.3.
TEST(Logits, SamplesFollowTheDistribution) {
  const Row start = {0.3f, -1.0f, 1.7f, 0.0f, -2.5f, 0.9f, 0.9f, -0.2f};
  for (const double temperature : {0.5, 1.0, 2.0}) {
    Row row = start;
    scale_temperature(row, temperature);
    double all = 0;
    for (const float l : start) all += std::exp(l / temperature);
    std::vector<double> counts(row.size(), 0.0);
    const int draws = 100000;
    for (int i = 0; i < draws; ++i) counts[sample(row, random_uniform({17, random_stream(i, 3)}, 0))] += 1;
    double chi_square = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      const double expected = draws * std::exp(start[i] / temperature) / all;
      chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    EXPECT_LT(chi_square, 24.3) << temperature;
    EXPECT_GT(chi_square, 0.6);  // and are not too even to be random
  }
}

TEST(Logits, WhatIsRuledOutIsNeverDrawn) {
  const Row row = {kOut, 0, kOut, 0, kOut};
  EXPECT_EQ(sample(row, 0), 1);
  EXPECT_EQ(sample(row, 0.499), 1);
  EXPECT_EQ(sample(row, 0.5), 3);
  EXPECT_EQ(sample(row, std::nextafter(1.0, 0.0)), 3);
}

TEST(Logits, LogSoftmaxSumsToOne) {
  Row row = {1, kOut, 3, -2};
  log_softmax(row);
  double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<double>(x));
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_NEAR(row[2] - row[0], 2, 1e-6);
  EXPECT_EQ(row[1], kOut);
}

}  // namespace
}  // namespace plumb
