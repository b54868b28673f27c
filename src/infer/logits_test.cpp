#include "infer/logits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr float kOut = -std::numeric_limits<float>::infinity();
using Row = std::vector<float>;

// Ids that are left.
std::vector<int> kept(const Row& row) {
  std::vector<int> ids;
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] != kOut) ids.push_back(static_cast<int>(i));
  }
  return ids;
}

TEST(Logits, B46RepetitionPenaltyOncePerIdAndBySign) {
  Row row = {2, -2, 1};
  penalize_repetition(row, std::vector<int32_t>{0, 0, 1, 0, 0, 0}, 2);
  EXPECT_EQ(row, (Row{1, -4, 1}));
  penalize_repetition(row, std::vector<int32_t>{0, 1, 2}, 1);
  EXPECT_EQ(row, (Row{1, -4, 1}));
  penalize_repetition(row, std::vector<int32_t>{7, -1}, 2);  // ids without a logit
  EXPECT_EQ(row, (Row{1, -4, 1}));
}

TEST(Logits, BadWordsEndWhereTheirBeginningWasWritten) {
  const std::vector<std::vector<int64_t>> words = {{3}, {1, 2}, {0, 1, 4}};
  Row row(5, 0.0f);
  ban_words(row, std::vector<int32_t>{0, 1}, words);
  EXPECT_EQ(kept(row), (std::vector<int>{0, 1}));
  row.assign(5, 0.0f);
  ban_words(row, std::vector<int32_t>{1, 0}, words);
  EXPECT_EQ(kept(row), (std::vector<int>{0, 1, 2, 4}));
  row.assign(5, 0.0f);
  ban_words(row, std::vector<int32_t>{}, words);
  EXPECT_EQ(kept(row), (std::vector<int>{0, 1, 2, 4}));
}

TEST(Logits, AForcedTokenIsTheOnlyOne) {
  Row row = {5, kOut, 1};
  force_token(row, 1);
  EXPECT_EQ(greedy(row), 1);
  EXPECT_EQ(sample(row, 0.99), 1);
}

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

TEST(Logits, TopKKeepsExactlyK) {
  const Row start = {1, 4, 4, 3, 4};
  for (const auto& [k, expected] : std::vector<std::pair<int64_t, std::vector<int>>>{{1, {1}},
                                                                                     {2, {1, 2}},
                                                                                     {4, {1, 2, 3, 4}},
                                                                                     {5, {0, 1, 2, 3, 4}},
                                                                                     {0, {0, 1, 2, 3, 4}},
                                                                                     {99, {0, 1, 2, 3, 4}}}) {
    Row row = start;
    keep_top_k(row, k);
    EXPECT_EQ(kept(row), expected) << k;
  }
  Row cut = {1, kOut, 2, kOut};
  keep_top_k(cut, 3);
  EXPECT_EQ(kept(cut), (std::vector<int>{0, 2}));
}

TEST(Logits, TopPKeepsTheSmallestSetThatReachesP) {
  const auto logit = [](double p) { return static_cast<float>(std::log(p)); };
  const Row start = {logit(0.1), logit(0.5), logit(0.15), logit(0.25)};
  for (const auto& [p, expected] : std::vector<std::pair<double, std::vector<int>>>{
           {0, {1}}, {0.3, {1}}, {0.6, {1, 3}}, {0.8, {1, 2, 3}}, {0.95, {0, 1, 2, 3}}, {1, {0, 1, 2, 3}}}) {
    Row row = start;
    keep_top_p(row, p);
    EXPECT_EQ(kept(row), expected) << p;
  }
}

TEST(Logits, TopPAlwaysKeepsOne) {
  for (Row row : {Row{100, 0, 0}, Row{0, 0, 0}, Row{kOut, -3, kOut}, Row{-3e38f, 3e38f, 0}}) {
    const int32_t best = greedy(row);
    keep_top_p(row, 1e-9);
    EXPECT_EQ(kept(row), std::vector<int>{best});
  }
}

// Many nearly equal tokens: more than the part of the order that is made at first.
TEST(Logits, TopPOverALongRowAgreesWithAFullSort) {
  Row row(3001);
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(random_normal({5, 0}, i) * 0.5);
  for (const double p : {0.01, 0.3, 0.9, 0.999}) {
    std::vector<int> order(row.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return row[a] > row[b]; });
    double all = 0, sum = 0;
    for (const int i : order) all += std::exp(static_cast<double>(row[i]));
    size_t n = 0;
    while (sum < p * all) sum += std::exp(static_cast<double>(row[order[n++]]));
    std::vector<int> expected(order.begin(), order.begin() + static_cast<int64_t>(n));
    std::sort(expected.begin(), expected.end());
    Row cut = row;
    keep_top_p(cut, p);
    EXPECT_EQ(kept(cut), expected) << p;
  }
}

TEST(Logits, MinPIsRelativeToTheLikeliest) {
  const auto logit = [](double p) { return static_cast<float>(std::log(p)); };
  const Row start = {logit(0.5), logit(0.3), logit(0.15), logit(0.05)};
  for (const auto& [p, expected] : std::vector<std::pair<double, std::vector<int>>>{
           {0, {0, 1, 2, 3}}, {0.05, {0, 1, 2, 3}}, {0.2, {0, 1, 2}}, {0.5, {0, 1}}, {1, {0}}}) {
    Row row = start;
    keep_min_p(row, p);
    EXPECT_EQ(kept(row), expected) << p;
  }
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

}  // namespace
}  // namespace plumb
