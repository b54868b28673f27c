#include "infer/writing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/test_support.h"
#include "base/utf8.h"
#include "infer/decoding.h"
#include "infer/logits.h"
#include "infer/test_models.h"

namespace plumb::test {
namespace {

using Ids = std::vector<int32_t>;

ModelConfig byte_config() {
  ModelConfig c = small_decoder();
  c.vocab_size = 259;  // bytes, end, padding, mask
  c.max_length = 64;
  return c;
}

class Writings : public testing::Test {
 protected:
  const Tokenizer tokenizer_ = Tokenizer::bytes();
  std::unique_ptr<Transformer> model_ = make_model(byte_config());
  GenerationDefaults defaults_;
  GenerateOptions options_ = [] {
    GenerateOptions o;
    o.max_new_tokens = 12;
    return o;
  }();

  std::vector<Generated> run(std::vector<Ids> prompts, TextStream::OnText on_text = {}) const {
    return write({*model_, tokenizer_, defaults_, options_, std::move(prompts), {}, std::move(on_text)});
  }
  // The logits after a sequence, without a cache.
  std::vector<float> logits_after(const Ids& ids) const {
    Context context;
    const Tensor t = Tensor::of<int32_t>({1, static_cast<int64_t>(ids.size())}, ids);
    const Tensor logits = model_->logits(context, model_->decode(context, {t}));
    return {logits.f32() + logits.numel() - logits.width(), logits.f32() + logits.numel()};
  }
};

TEST_F(Writings, GreedyIsTheLikeliestTokenEachTime) {
  Ids sequence = some_ids(5, 1, 256);
  const Generated g = run({sequence})[0];
  ASSERT_EQ(g.ids.size(), 12u);
  for (const int32_t id : g.ids) {
    EXPECT_EQ(id, greedy(logits_after(sequence)));
    sequence.push_back(id);
  }
  EXPECT_EQ(g.text, tokenizer_.decode(g.ids));
  EXPECT_EQ(g.end, EndReason::max_new_tokens);
  EXPECT_EQ(g.prompt_tokens, 5);
  EXPECT_GT(g.tokens_per_second, 0);
}

TEST_F(Writings, BatchesEqualSinglePrompts) {
  const std::vector<Ids> prompts = {some_ids(3, 3, 256), some_ids(9, 4, 256), some_ids(1, 5, 256)};
  for (const double temperature : {0.0, 1.3}) {
    options_.temperature = temperature;
    for (const int64_t chunk : {0, 2}) {
      options_.prefill_chunk = chunk;
      const auto together = run(prompts);
      if (temperature > 0) {  // the row is part of what is drawn
        EXPECT_EQ(together[0].ids, run({prompts[0]})[0].ids);
        EXPECT_EQ(together[1].ids, run({prompts[2], prompts[1]})[1].ids);
      } else {
        for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(together[i].ids, run({prompts[i]})[0].ids);
      }
    }
  }
}

TEST_F(Writings, SeedsReproduceAndDiffer) {
  options_.temperature = 1;
  const Ids prompt = some_ids(4, 2, 256);
  std::set<Ids> texts;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    options_.seed = seed;
    const Ids ids = run({prompt})[0].ids;
    EXPECT_EQ(ids, run({prompt})[0].ids);
    texts.insert(ids);
  }
  EXPECT_EQ(texts.size(), 4u);
  const auto rows = run({prompt, prompt});
  EXPECT_NE(rows[0].ids, rows[1].ids);
}

// Chi-square of the first token over seeds, all cut-offs in play; 99.9 % bounds by degrees of freedom.
TEST_F(Writings, TokensFollowTheCutDistribution) {
  const Ids prompt = some_ids(6, 8, 256);
  options_.max_new_tokens = 1;
  options_.temperature = 1.5;
  options_.top_k = 9;
  options_.top_p = 0.95;
  options_.min_p = 0.05;
  std::vector<float> row = logits_after(prompt);
  std::vector<std::pair<double, int>> order;
  for (int i = 0; i < 259; ++i) order.push_back({-row[i] / 1.5, i});
  std::sort(order.begin(), order.end());
  double nine = 0, sum = 0;
  for (int i = 0; i < 9; ++i) nine += std::exp(-order[i].first);
  std::map<int32_t, double> expected;
  for (int i = 0; i < 9; ++i) {
    const double w = std::exp(-order[i].first);
    if (sum < 0.95 * nine && w >= 0.05 * std::exp(-order[0].first)) expected[order[i].second] = w;
    sum += w;
  }
  ASSERT_GE(expected.size(), 2u);
  ASSERT_LT(expected.size(), 9u);
  double all = 0, chi_square = 0;
  for (const auto& [id, w] : expected) all += w;
  std::map<int32_t, double> counts;
  const int draws = 3000;
  for (int i = 0; i < draws / 50; ++i) {  // fifty rows of a batch at a time
    options_.seed = i;
    for (const Generated& g : run(std::vector<Ids>(50, prompt))) counts[g.ids[0]] += 1;
  }
  for (const auto& [id, n] : counts) EXPECT_TRUE(expected.count(id)) << id;
  for (const auto& [id, w] : expected) {
    const double e = draws * w / all;
    chi_square += (counts[id] - e) * (counts[id] - e) / e;
  }
  EXPECT_LT(chi_square, 26.1);  // 8 degrees of freedom, the most there can be
}

TEST_F(Writings, EndTokensEndUnlessIgnored) {
  const Ids prompt = some_ids(5, 1, 256);
  const Ids free = run({prompt})[0].ids;
  defaults_.eos_ids = {258, free[3]};
  const Ids expected(free.begin(), std::find(free.begin(), free.end(), free[3]) + 1);
  const Generated ended = run({prompt})[0];
  EXPECT_EQ(ended.ids, expected);
  EXPECT_EQ(ended.end, EndReason::eos);
  options_.ignore_eos = true;
  EXPECT_EQ(run({prompt})[0].ids, free);
  // Rows that end early leave the others as they are.
  options_.ignore_eos = false;
  const auto both = run({prompt, some_ids(7, 2, 256)});
  EXPECT_EQ(both[0].ids, expected);
  EXPECT_EQ(both[1].ids, run({some_ids(7, 2, 256)})[0].ids);
}

TEST_F(Writings, ForcedTokensAndBadWords) {
  const Ids prompt = some_ids(1, 1, 256);
  const Ids free = run({prompt})[0].ids;
  defaults_.forced_bos_id = 7;  // the second token of all, as the files mean it
  defaults_.forced_eos_id = 256;
  defaults_.eos_ids = {256};
  const Generated forced = run({prompt})[0];
  EXPECT_EQ(forced.ids.front(), 7);
  EXPECT_EQ(forced.ids.back(), 256);
  EXPECT_LE(forced.ids.size(), 12u);
  EXPECT_EQ(forced.end, EndReason::eos);
  defaults_ = {};
  defaults_.bad_words = {{free[0]}};
  const Ids without = run({prompt})[0].ids;
  EXPECT_EQ(std::count(without.begin(), without.end(), free[0]), 0);
  defaults_.eos_ids = {free[0]};  // a word that is the end token has no effect
  EXPECT_EQ(run({prompt})[0].ids, Ids{free[0]});
}

TEST_F(Writings, TheFilesRulesHoldWhereTheyAre) {
  const Ids prompt = some_ids(3, 1, 256);
  const Ids free = run({prompt})[0].ids;
  defaults_.suppressed_at_begin = {free[0]};
  EXPECT_NE(run({prompt})[0].ids[0], free[0]);
  defaults_ = {};
  defaults_.suppressed = {free[0], free[1]};
  const Ids without = run({prompt})[0].ids;
  for (const int32_t id : without) {
    EXPECT_NE(id, free[0]);
    EXPECT_NE(id, free[1]);
  }
  defaults_ = {};
  defaults_.eos_ids = {free[2]};
  defaults_.min_length = 8;  // with the prompt
  EXPECT_GE(run({prompt})[0].ids.size(), 5u);
  defaults_.min_length.reset();
  options_.min_new_tokens = 7;
  EXPECT_GE(run({prompt})[0].ids.size(), 7u);
}

TEST_F(Writings, LogProbabilitiesAreTheModels) {
  Ids sequence = some_ids(4, 1, 256);
  options_.log_probabilities = 3;
  options_.repetition_penalty = 4;  // changes what is chosen, not what is told
  const Generated g = run({sequence})[0];
  ASSERT_EQ(g.probabilities.size(), g.ids.size());
  for (size_t i = 0; i < g.ids.size(); ++i) {
    std::vector<float> row = logits_after(sequence);
    log_softmax(row);
    EXPECT_NEAR(g.probabilities[i].log_probability, row[g.ids[i]], 1e-5);
    ASSERT_EQ(g.probabilities[i].likeliest.size(), 3u);
    EXPECT_EQ(g.probabilities[i].likeliest[0].first, greedy(row));
    EXPECT_GE(g.probabilities[i].likeliest[0].second, g.probabilities[i].likeliest[1].second);
    sequence.push_back(g.ids[i]);
  }
}

// Tokens have the bits that were asked for on average, more and fewer than the model alone gives.
TEST_F(Writings, MirostatKeepsTheBits) {
  options_.temperature = 1;
  options_.max_new_tokens = 60;
  const auto bits = [&](double tau) {
    options_.mirostat_tau = tau;
    options_.log_probabilities = 1;
    double sum = 0, count = 0;
    for (uint64_t seed = 0; seed < 6; ++seed) {
      options_.seed = seed;
      const Generated g = run({some_ids(3, seed + 1, 256)})[0];
      for (const TokenProbability& p : g.probabilities) {
        sum -= p.log_probability / std::log(2.0);
        ++count;
      }
    }
    return sum / count;
  };
  const double free = bits(0), low = bits(1), middle = bits(2.5);
  EXPECT_LT(low, middle);
  EXPECT_LT(middle, free);
}

TEST_F(Writings, BeamsHaveTheirScoresAndDoNotDependOnTheBatch) {
  const std::vector<Ids> prompts = {some_ids(3, 3, 256), some_ids(9, 4, 256), some_ids(1, 5, 256)};
  options_.beams = 4;
  options_.results = 4;
  options_.length_penalty = 0.7;
  defaults_.eos_ids = {run({prompts[0]})[0].ids[2], 17, 99};
  const auto searched = [&](std::vector<Ids> p) {
    return search({*model_, tokenizer_, defaults_, options_, std::move(p), {}, {}});
  };
  const auto together = searched(prompts);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const Generated alone = searched({prompts[i]})[0];
    EXPECT_EQ(together[i].ids, alone.ids);
    ASSERT_EQ(alone.others.size(), 3u);
    double last = alone.score;
    std::set<Ids> different{alone.ids};
    for (const Generated& other : alone.others) {
      EXPECT_LE(other.score, last);
      last = other.score;
      different.insert(other.ids);
    }
    EXPECT_EQ(different.size(), 4u);
    for (const Generated* g : {&alone, &alone.others[2]}) {
      Ids sequence = prompts[i];
      double sum = 0;
      for (const int32_t id : g->ids) {
        std::vector<float> row = logits_after(sequence);
        log_softmax(row);
        sum += row[id];
        sequence.push_back(id);
      }
      EXPECT_NEAR(g->score, sum / std::pow(static_cast<double>(g->ids.size()), 0.7), 1e-4);
    }
  }
  // The likeliest text is at least as likely as the one that is likely step by step.
  options_.length_penalty = 1;
  const double best = searched({prompts[1]})[0].score;
  options_.beams = options_.results = 1;
  EXPECT_GE(best, searched({prompts[1]})[0].score - 1e-6);
}

TEST_F(Writings, GroupsOfBeamsBeginDifferently) {
  options_.beams = 6;
  options_.beam_groups = 3;
  options_.diversity_penalty = 1e3;
  options_.results = 6;
  const Generated g = search({*model_, tokenizer_, defaults_, options_, {some_ids(4, 2, 256)}, {}, {}})[0];
  std::set<int32_t> first{g.ids[0]};
  for (const Generated& other : g.others) first.insert(other.ids[0]);
  EXPECT_GE(first.size(), 3u);
}

TEST_F(Writings, BeamsEndAtStopStrings) {
  options_.beams = 3;
  const auto searched = [&] {
    return search({*model_, tokenizer_, defaults_, options_, {some_ids(4, 2, 256)}, {}, {}})[0];
  };
  const std::string free = searched().text;
  ASSERT_GE(free.size(), 3u);
  size_t at = 1;
  while (at + 1 < free.size() && (free[at] & 0x80) != 0) ++at;
  options_.stop = {free.substr(at, 1)};
  const Generated g = searched();
  EXPECT_EQ(g.text.find(options_.stop[0]), std::string::npos);
}

TEST_F(Writings, RepetitionPenaltyCountsThePromptToo) {
  const Ids prompt = some_ids(5, 1, 256);
  options_.repetition_penalty = 1e6;
  options_.max_new_tokens = 40;
  const Ids ids = run({prompt})[0].ids;
  std::set<int32_t> seen(prompt.begin(), prompt.end());
  for (const int32_t id : ids) EXPECT_TRUE(seen.insert(id).second) << id;
}

TEST_F(Writings, StopStringsCutAcrossTokensAndAreNotShown) {
  options_.temperature = 3;  // all sorts of bytes
  options_.max_new_tokens = 40;
  const Ids prompt = some_ids(5, 1, 256);
  const Generated free = run({prompt})[0];
  // Two whole characters somewhere in the middle of the text, each a token or more of its own.
  size_t at = free.text.size() / 2;
  while ((static_cast<uint8_t>(free.text[at]) & 0xC0) == 0x80) ++at;
  size_t end = at + 1;
  for (int i = 0; i < 2; ++i, ++end) {
    while (end < free.text.size() && (static_cast<uint8_t>(free.text[end]) & 0xC0) == 0x80) ++end;
  }
  options_.stop = {free.text.substr(at, end - 1 - at)};
  std::string shown;
  const Generated cut = run({prompt}, [&](std::string_view piece) { shown += piece; })[0];
  EXPECT_EQ(cut.end, EndReason::stop);
  EXPECT_EQ(cut.text, free.text.substr(0, free.text.find(options_.stop[0])));
  EXPECT_EQ(shown, cut.text);
  EXPECT_LT(cut.ids.size(), free.ids.size());
}

TEST_F(Writings, ModelsEndIsNamedAndPromptsBeyondItAreErrors) {
  options_.max_new_tokens = 1000000;
  const Generated g = run({some_ids(60, 1, 256)})[0];
  EXPECT_EQ(g.ids.size(), 4u);
  EXPECT_EQ(g.end, EndReason::max_length);
  for (const size_t length : {64u, 65u}) {
    const std::string message = error_of(ErrorKind::input, [&] { run({some_ids(length, 1, 256)}); });
    EXPECT_NE(message.find("max_length"), std::string::npos) << message;
  }
}

TEST_F(Writings, ChunksOfThePromptChangeNothing) {
  const Ids prompt = some_ids(13, 6, 256);
  const Ids whole = run({prompt})[0].ids;
  for (const int64_t chunk : {1, 4, 12, 13, 512}) {
    options_.prefill_chunk = chunk;
    EXPECT_EQ(run({prompt})[0].ids, whole) << chunk;
  }
}

TEST_F(Writings, DamagedWeightsAreAnErrorNotAText) {
  model_->parameters().all()[0]->value.f32()[5] = NAN;
  EXPECT_THROW(run({{0, 1, 2}}), Error);
}

TEST_F(Writings, IdsBeyondTheTokenizerAreNeverWritten) {
  ModelConfig padded = byte_config();
  padded.vocab_size = 320;
  const auto model = make_model(padded);
  options_.temperature = 100;
  options_.max_new_tokens = 60;
  const auto g = write({*model, tokenizer_, defaults_, options_, {{65}}, {}, {}});
  for (const int32_t id : g[0].ids) EXPECT_LT(id, 259);
}

TEST_F(Writings, StreamedTextIsWholeCharacters) {
  options_.temperature = 2;
  options_.max_new_tokens = 50;
  std::string shown;
  const Generated g = run({{65}}, [&](std::string_view piece) {
    EXPECT_EQ(utf8_fault(piece), kUtf8Valid);
    shown += piece;
  })[0];
  EXPECT_EQ(shown, g.text);
  EXPECT_EQ(g.text, tokenizer_.decode(g.ids));
}

}  // namespace
}  // namespace plumb::test
