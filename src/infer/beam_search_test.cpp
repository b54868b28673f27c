#include "infer/beam_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/random.h"
#include "infer/logits.h"

namespace plumb {
namespace {

using Ids = std::vector<int32_t>;
constexpr int32_t kEnd = 0;

// A language over a few tokens, in which every history has log-probabilities of its own.
class Language {
 public:
  Language(int32_t tokens, uint64_t seed) : tokens_(tokens), seed_(seed) {}

  const std::vector<float>& after(const Ids& ids) {
    auto [it, is_new] = rows_.try_emplace(ids);
    if (is_new) {
      uint64_t stream = 1;
      for (const int32_t id : ids) stream = stream * 31 + static_cast<uint64_t>(id) + 1;
      for (int32_t i = 0; i < tokens_; ++i)
        it->second.push_back(static_cast<float>(random_normal({seed_, stream}, i)));
      log_softmax(it->second);
    }
    return it->second;
  }

 private:
  int32_t tokens_;
  uint64_t seed_;
  std::map<Ids, std::vector<float>> rows_;
};

std::optional<EndReason> at_end(const Ids&, int32_t next) {
  return next == kEnd ? std::optional(EndReason::eos) : std::nullopt;
}

std::vector<Hypothesis> searched(Language& language, const BeamGroup::Options& options) {
  BeamGroup group(options);
  while (!group.running().empty()) {
    std::vector<std::span<const float>> rows;
    for (const BeamGroup::Beam& beam : group.running()) rows.emplace_back(language.after(beam.ids));
    group.step(rows, at_end);
  }
  return group.finished();
}

// Every text of the language, best first.
std::vector<Hypothesis> all_texts(Language& language, int32_t tokens, const BeamGroup::Options& o) {
  std::vector<Hypothesis> all;
  std::vector<std::pair<Ids, double>> open{{{}, 0}};
  while (!open.empty()) {
    const auto [ids, score] = open.back();
    open.pop_back();
    for (int32_t id = 0; id < tokens; ++id) {
      Ids next = ids;
      next.push_back(id);
      const double sum = score + language.after(ids)[id];
      if (id == kEnd || static_cast<int64_t>(next.size()) == o.most) {
        all.push_back({next, sum / std::pow(next.size(), o.length_penalty), EndReason::eos});
      } else {
        open.emplace_back(next, sum);
      }
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  return all;
}

// With as many beams as there are texts nothing is lost on the way; "never" ends only when nothing can be
// better, where scores fall with length.
TEST(BeamSearch, EnoughBeamsFindTheBestOfAllTexts) {
  for (const double length_penalty : {0.0, 1.0, 2.5}) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      Language language(4, seed);
      const BeamGroup::Options o{
          .beams = 300, .most = 4, .length_penalty = length_penalty, .early_stopping = EarlyStopping::never};
      const auto got = searched(language, o), want = all_texts(language, 4, o);
      ASSERT_EQ(got.size(), want.size());  // 1 + 3 + 9 + 27 * 4
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_NEAR(got[i].score, want[i].score, 1e-12) << i;
      }
      EXPECT_EQ(got[0].ids, want[0].ids);
    }
  }
}

TEST(BeamSearch, OneBeamIsGreedyUntilItEnds) {
  Language language(6, 3);
  const auto got = searched(language, {.beams = 1, .most = 9});
  ASSERT_EQ(got.size(), 1u);
  // The first step's best two are the end of a text and a token that goes on, in one order or the other.
  double sum = 0;
  Ids ids;
  for (const int32_t id : got[0].ids) {
    sum += language.after(ids)[id];
    ids.push_back(id);
  }
  EXPECT_NEAR(got[0].score, sum / static_cast<double>(ids.size()), 1e-12);
}

// Two steps by hand, with a table in which the three meanings of early stopping end in different texts.
TEST(BeamSearch, EarlyStoppingInItsThreeMeanings) {
  const std::map<Ids, std::vector<double>> table = {
      {{}, {0.5, 0.4, 0.1}},        {{1}, {0.6, 0.39, 0.01}},  {{2}, {0.3, 0.4, 0.3}},
      {{1, 1}, {0.01, 0.98, 0.01}}, {{1, 2}, {0.1, 0.1, 0.8}}, {{2, 1}, {0.2, 0.4, 0.4}},
      {{2, 0}, {0.2, 0.4, 0.4}},    {{2, 2}, {0.2, 0.4, 0.4}}, {{1, 1, 1}, {0.98, 0.01, 0.01}},
  };
  const auto run = [&](EarlyStopping early, double length_penalty) {
    BeamGroup group({.beams = 2, .most = 4, .length_penalty = length_penalty, .early_stopping = early});
    int steps = 0;
    while (!group.running().empty()) {
      std::vector<std::vector<float>> values;
      for (const BeamGroup::Beam& beam : group.running()) {
        const auto known = table.find(beam.ids);
        const std::vector<double> p =
            known == table.end() ? std::vector<double>{0.34, 0.33, 0.33} : known->second;
        values.emplace_back();
        for (const double x : p) values.back().push_back(static_cast<float>(std::log(x)));
      }
      const std::vector<std::span<const float>> rows(values.begin(), values.end());
      group.step(rows, at_end);
      ++steps;
    }
    return std::pair(steps, group.finished()[0].ids);
  };
  // After two steps "0" (log 0.5) and "1 0" (log 0.24, by 2^penalty) have ended; "1 1" runs with log 0.156.
  EXPECT_EQ(run(EarlyStopping::yes, 2), std::pair(2, Ids{1, 0}));
  // log(0.156) / 4 is better than log(0.5), so the search goes on, and finds "1 1 1 0".
  EXPECT_EQ(run(EarlyStopping::no, 2), std::pair(4, Ids{1, 1, 1, 0}));
  EXPECT_EQ(run(EarlyStopping::never, 2), std::pair(4, Ids{1, 1, 1, 0}));
  // At its present length no running text is better than the worst that ended; at the longest one it may be.
  EXPECT_EQ(run(EarlyStopping::no, 0.1).first, 2);
  EXPECT_EQ(run(EarlyStopping::never, 0.4).first, 4);
  EXPECT_EQ(run(EarlyStopping::no, 0.4).first, 2);
}

// What ends beyond the best as many as beams is no text: it only stood by.
TEST(BeamSearch, OnlyTheBestCandidatesEndATextAndAllAtTheLimit) {
  BeamGroup group({.beams = 2, .most = 2});
  const std::vector<float> first = {std::log(0.1f), std::log(0.5f), std::log(0.4f)};
  group.step(std::vector<std::span<const float>>{first}, at_end);
  EXPECT_TRUE(group.finished().empty());
  ASSERT_EQ(group.running().size(), 2u);
  EXPECT_EQ(group.running()[0].ids, Ids{1});
  const std::vector<float> second = {std::log(0.2f), std::log(0.3f), std::log(0.5f)};
  group.step(std::vector<std::span<const float>>{second, second}, at_end);
  EXPECT_TRUE(group.running().empty());
  ASSERT_EQ(group.finished().size(), 2u);
  EXPECT_EQ(group.finished()[0].ids, (Ids{1, 2}));
  EXPECT_EQ(group.finished()[0].end, EndReason::max_new_tokens);
  EXPECT_EQ(group.finished()[1].ids, (Ids{2, 2}));
}

// Where all but one token are ruled out, no beam is filled with what is ruled out.
TEST(BeamSearch, RuledOutTokensAreNoBeams) {
  BeamGroup group({.beams = 3, .most = 3});
  const float out = -std::numeric_limits<float>::infinity();
  group.step(std::vector<std::span<const float>>{std::vector<float>{out, 0, out}}, at_end);
  ASSERT_EQ(group.running().size(), 1u);
  group.step(std::vector<std::span<const float>>{std::vector<float>{out, out, out}}, at_end);
  EXPECT_TRUE(group.running().empty());
  EXPECT_TRUE(group.finished().empty());
}

}  // namespace
}  // namespace plumb
