#include "infer/penalties.h"

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

TEST(Penalties, B46RepetitionPenaltyOncePerIdAndBySign) {
  Row row = {2, -2, 1};
  penalize_repetition(row, std::vector<int32_t>{0, 0, 1, 0, 0, 0}, 2);
  EXPECT_EQ(row, (Row{1, -4, 1}));
  penalize_repetition(row, std::vector<int32_t>{0, 1, 2}, 1);
  EXPECT_EQ(row, (Row{1, -4, 1}));
  penalize_repetition(row, std::vector<int32_t>{7, -1}, 2);  // ids without a logit
  EXPECT_EQ(row, (Row{1, -4, 1}));
}

TEST(Penalties, BadWordsEndWhereTheirBeginningWasWritten) {
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

TEST(Penalties, AForcedTokenIsTheOnlyOne) {
  Row row = {5, kOut, 1};
  force_token(row, 1);
  EXPECT_EQ(greedy(row), 1);
  EXPECT_EQ(sample(row, 0.99), 1);
}

TEST(Penalties, PresenceOnceAndFrequencyForEachTime) {
  Row row = {2, -2, 1, kOut};
  penalize_presence(row, std::vector<int32_t>{0, 0, 1, 3, 9, -1}, 0.5, 0.25);
  EXPECT_EQ(row, (Row{1, -2.75, 1, kOut}));
}

TEST(Penalties, NgramsThatWereThereAreNotCompletedAgain) {
  Row row(6, 0.0f);
  const std::vector<int32_t> history = {1, 2, 3, 1, 2, 4, 1, 2};
  ban_repeated_ngrams(row, history, history, 3);
  EXPECT_EQ(kept(row), (std::vector<int>{0, 1, 2, 5}));
  row.assign(6, 0.0f);
  ban_repeated_ngrams(row, history, history, 1);
  EXPECT_EQ(kept(row), (std::vector<int>{0, 5}));
  row.assign(6, 0.0f);
  ban_repeated_ngrams(row, std::vector<int32_t>{5, 1}, std::vector<int32_t>{1, 0, 5, 1, 4},
                      2);  // of a source
  EXPECT_EQ(kept(row), (std::vector<int>{1, 2, 3, 5}));
  row.assign(6, 0.0f);
  ban_repeated_ngrams(row, std::vector<int32_t>{5}, history, 3);  // too short to end in a pair
  ban_repeated_ngrams(row, history, history, 0);
  EXPECT_EQ(kept(row).size(), 6u);
}

// Against a search for each place from the end backwards.
TEST(Penalties, CopiesArePenalizedByTheirLength) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    std::vector<int32_t> history;
    for (int i = 0; i < 30; ++i) history.push_back(static_cast<int32_t>(random_uniform({seed, 1}, i) * 3));
    const auto is_breaker = [&](int32_t id) { return seed % 2 == 1 && id == 2; };
    const int64_t range = seed % 3 == 0 ? 11 : 0;
    const CopyPenalty penalty{
        .multiplier = 0.5, .base = 1.5, .allowed = 2, .range = range, .is_breaker = is_breaker};
    Row got(3, 0.0f), want(3, 0.0f);
    penalize_copies(got, history, penalty);
    const int n = 30, first = range > 0 ? n - 11 : 0;
    for (int next = 0; next < 3; ++next) {
      int longest = 0;
      for (int i = first; i + 1 < n; ++i) {
        int length = 0;
        while (i - length >= first && history[i - length] == history[n - 1 - length] &&
               !is_breaker(history[i - length]))
          ++length;
        if (history[i + 1] == next) longest = std::max(longest, length);
      }
      if (longest >= 2) want[next] = static_cast<float>(-0.5 * std::pow(1.5, longest - 2));
    }
    EXPECT_EQ(got, want) << seed;
  }
}

TEST(Penalties, ALongCopyStaysFinite) {
  Row row(2, 0.0f);
  penalize_copies(row, std::vector<int32_t>(9000, 1),
                  {.multiplier = 1, .base = 4, .is_breaker = [](int32_t) { return false; }});
  EXPECT_TRUE(std::isfinite(row[1]));
  EXPECT_LT(row[1], -1e29f);
  EXPECT_EQ(row[0], 0);
}

TEST(Penalties, BiasAndBans) {
  Row row = {1, 2, 3};
  add_bias(row, {{0, 0.5}, {2, -4}, {7, 1}});
  EXPECT_EQ(row, (Row{1.5, 2, -1}));
  ban_tokens(row, std::vector<int64_t>{1, 5, -1});
  EXPECT_EQ(kept(row), (std::vector<int>{0, 2}));
}

}  // namespace
}  // namespace plumb
