#include "infer/cutoffs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "infer/logits.h"
#include "plumb/error.h"

namespace plumb {
namespace {

using Row = std::vector<float>;

// Ids that are left.
std::vector<int> kept(const Row& row) {
  std::vector<int> ids;
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] != kOut) ids.push_back(static_cast<int>(i));
  }
  return ids;
}

TEST(CutOffs, TopKKeepsExactlyK) {
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

TEST(CutOffs, TopPKeepsTheSmallestSetThatReachesP) {
  const auto logit = [](double p) { return static_cast<float>(std::log(p)); };
  const Row start = {logit(0.1), logit(0.5), logit(0.15), logit(0.25)};
  for (const auto& [p, expected] : std::vector<std::pair<double, std::vector<int>>>{
           {0, {1}}, {0.3, {1}}, {0.6, {1, 3}}, {0.8, {1, 2, 3}}, {0.95, {0, 1, 2, 3}}, {1, {0, 1, 2, 3}}}) {
    Row row = start;
    keep_top_p(row, p);
    EXPECT_EQ(kept(row), expected) << p;
  }
}

TEST(CutOffs, TopPAlwaysKeepsOne) {
  for (Row row : {Row{100, 0, 0}, Row{0, 0, 0}, Row{kOut, -3, kOut}, Row{-3e38f, 3e38f, 0}}) {
    const int32_t best = greedy(row);
    keep_top_p(row, 1e-9);
    EXPECT_EQ(kept(row), std::vector<int>{best});
  }
}

// Many nearly equal tokens: more than the part of the order that is made at first.
TEST(CutOffs, TopPOverALongRowAgreesWithAFullSort) {
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

TEST(CutOffs, MinPIsRelativeToTheLikeliest) {
  const auto logit = [](double p) { return static_cast<float>(std::log(p)); };
  const Row start = {logit(0.5), logit(0.3), logit(0.15), logit(0.05)};
  for (const auto& [p, expected] : std::vector<std::pair<double, std::vector<int>>>{
           {0, {0, 1, 2, 3}}, {0.05, {0, 1, 2, 3}}, {0.2, {0, 1, 2}}, {0.5, {0, 1}}, {1, {0}}}) {
    Row row = start;
    keep_min_p(row, p);
    EXPECT_EQ(kept(row), expected) << p;
  }
}

Row logs(const std::vector<double>& p) {
  Row row;
  for (const double x : p) row.push_back(static_cast<float>(std::log(x)));
  return row;
}

// Entropy of 0.5, 0.25, 0.125, 0.125 is 1.75 bits: they have 1, 2, 3 and 3, so the second is the most
// typical.
TEST(CutOffs, TypicalTokensAreNearestToTheEntropy) {
  const std::vector<double> p = {0.5, 0.25, 0.125, 0.125};
  for (const auto& [mass, ids] : std::vector<std::pair<double, std::vector<int>>>{{0.1, {1}},
                                                                                  {0.25, {1}},
                                                                                  {0.3, {0, 1}},
                                                                                  {0.76, {0, 1, 2}},
                                                                                  {0.99, {0, 1, 2, 3}},
                                                                                  {1, {0, 1, 2, 3}}}) {
    Row row = logs(p);
    keep_typical(row, mass - 1e-6 * (mass < 1));
    EXPECT_EQ(kept(row), ids) << mass;
  }
}

TEST(CutOffs, EpsilonAndEta) {
  const std::vector<double> p = {0.6, 0.3, 0.08, 0.02};
  Row row = logs(p);
  keep_probable(row, 0.05);
  EXPECT_EQ(kept(row), (std::vector<int>{0, 1, 2}));
  row = logs(p);
  keep_probable(row, 0.9);  // the likeliest stays
  EXPECT_EQ(kept(row), (std::vector<int>{0}));
  double entropy = 0;
  for (const double x : p) entropy -= x * std::log(x);
  for (const double bound : {0.0005, 0.019, 0.05, 0.5}) {
    const double eta = std::min(bound, std::sqrt(bound) * std::exp(-entropy));
    row = logs(p);
    keep_probable_by_entropy(row, bound);
    std::vector<int> want;
    for (int i = 0; i < 4; ++i) {
      if (p[i] >= eta || i == 0) want.push_back(i);
    }
    EXPECT_EQ(kept(row), want) << bound;
  }
}

TEST(CutOffs, TopChoicesAreExcludedButForTheLeast) {
  const std::vector<double> p = {0.05, 0.4, 0.3, 0.2, 0.05};
  Row row = logs(p);
  rule_out_top(row, 0.1);
  EXPECT_EQ(kept(row), (std::vector<int>{0, 3, 4}));
  row = logs(p);
  rule_out_top(row, 0.35);  // only one is that likely
  EXPECT_EQ(kept(row).size(), 5u);
}

TEST(CutOffs, MirostatKeepsTokensOfFewBits) {
  Row row = logs({0.5, 0.25, 0.125, 0.125});
  keep_unsurprising(row, 2.01);
  EXPECT_EQ(kept(row), (std::vector<int>{0, 1}));
  keep_unsurprising(row, -3);
  EXPECT_EQ(kept(row), (std::vector<int>{0}));
}

}  // namespace
}  // namespace plumb
