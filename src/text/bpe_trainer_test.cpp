#include "text/bpe_trainer.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"
#include "text/word_counts.h"

namespace plumb {
namespace {

// With the bytes as ids.
std::vector<BpeMerge> learn(const std::vector<WordCount>& words, size_t most, int64_t least = 1,
                            size_t longest = 0) {
  std::vector<std::string> tokens;
  for (int i = 0; i < 256; ++i) tokens.emplace_back(1, static_cast<char>(i));
  SymbolWords symbols;
  for (const WordCount& word : words) {
    std::vector<int32_t> ids;
    for (const char c : word.word) ids.push_back(static_cast<unsigned char>(c));
    symbols.add(ids, word.count);
  }
  return learn_merges(std::move(symbols), tokens,
                      {.most_tokens = 256 + most, .min_count = least, .longest = longest});
}

std::vector<std::array<int32_t, 3>> plain(const std::vector<BpeMerge>& merges) {
  std::vector<std::array<int32_t, 3>> result;
  for (const BpeMerge& m : merges) result.push_back({m.left, m.right, m.joined});
  return result;
}

// The definition: count all pairs of all words again before every merge.
std::vector<BpeMerge> slow_learn(const std::vector<WordCount>& words, int most, int64_t least) {
  std::map<std::string, int32_t> id_of;
  std::vector<std::string> spelling(256);
  for (int i = 0; i < 256; ++i)
    id_of[spelling[static_cast<size_t>(i)] = std::string(1, static_cast<char>(i))] = i;
  std::vector<std::vector<int32_t>> symbols;
  for (const auto& word : words) {
    symbols.emplace_back();
    for (const char c : word.word) symbols.back().push_back(static_cast<unsigned char>(c));
  }
  std::vector<BpeMerge> merges;
  std::map<std::pair<int32_t, int32_t>, int32_t> learned;
  const auto join = [&](int32_t left, int32_t right, int32_t joined) {
    for (auto& word : symbols) {
      for (size_t i = 0; i + 1 < word.size(); ++i) {
        if (word[i] != left || word[i + 1] != right) continue;
        word[i] = joined;
        word.erase(word.begin() + static_cast<ptrdiff_t>(i) + 1);
      }
    }
  };
  while (static_cast<int>(spelling.size()) < 256 + most) {
    std::map<std::pair<int32_t, int32_t>, int64_t> counts;
    for (size_t w = 0; w < words.size(); ++w) {
      for (size_t i = 0; i + 1 < symbols[w].size(); ++i)
        counts[{symbols[w][i], symbols[w][i + 1]}] += words[w].count;
    }
    std::pair<int32_t, int32_t> best;
    int64_t most_seen = 0;
    for (const auto& [pair, count] : counts) {
      if (count > most_seen) best = pair, most_seen = count;
    }
    if (most_seen < least) break;
    const std::string text =
        spelling[static_cast<size_t>(best.first)] + spelling[static_cast<size_t>(best.second)];
    const auto [place, fresh] = id_of.emplace(text, static_cast<int32_t>(spelling.size()));
    if (fresh) spelling.push_back(text);
    merges.push_back({best.first, best.second, place->second});
    learned[best] = place->second;
    join(best.first, best.second, place->second);
    for (bool again = true; again;) {
      again = false;
      for (const auto& [pair, joined] : learned) {
        for (const auto& word : symbols) {
          for (size_t i = 0; i + 1 < word.size(); ++i)
            again = again || (word[i] == pair.first && word[i + 1] == pair.second);
        }
        if (again) {
          join(pair.first, pair.second, joined);
          break;
        }
      }
    }
  }
  return merges;
}

TEST(BpeTrainer, MostFrequentFirstThenLowerIds) {
  // (a,b): 3, (b,c): 3, (x,y): 5
  const auto merges = learn({{"abc", 3}, {"xy", 5}}, 10);
  EXPECT_EQ(plain(merges),
            (std::vector<std::array<int32_t, 3>>{{'x', 'y', 256}, {'a', 'b', 257}, {257, 'c', 258}}));
}

TEST(BpeTrainer, StopsAtTheLimits) {
  EXPECT_EQ(learn({{"abcdef", 3}}, 2).size(), 2u);
  EXPECT_TRUE(learn({{"abcdef", 3}}, 10, 4).empty());
  EXPECT_TRUE(learn({}, 10).empty());
  EXPECT_TRUE(learn({{"a", 9}}, 10).empty());
}

TEST(BpeTrainer, NoMergeIsLongerThanAsked) {
  const auto merges = learn({{"abcd", 3}}, 10, 1, 2);
  EXPECT_EQ(plain(merges), (std::vector<std::array<int32_t, 3>>{{'a', 'b', 256}, {'c', 'd', 257}}));
}

TEST(BpeTrainer, NoMergeSpellsASpecialToken) {
  std::vector<std::string> tokens = {"ab", "a", "b", "c"};
  SymbolWords words;
  words.add({1, 2, 3}, 5);
  const auto merges =
      learn_merges(std::move(words), tokens, {.specials = 1, .most_tokens = 9, .min_count = 1});
  EXPECT_EQ(plain(merges), (std::vector<std::array<int32_t, 3>>{{2, 3, 4}, {1, 4, 5}}));
  EXPECT_EQ(tokens.back(), "abc");
}

TEST(BpeTrainer, AgreesWithTheDefinition) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const RandomKey key{seed, 3};
    uint64_t draw = 0;
    std::map<std::string, int64_t> counts;
    for (int i = 0; i < 60; ++i) {
      std::string word;
      for (uint64_t n = random_below(key, draw++, 9) + 1; n > 0; --n) {
        word += static_cast<char>('a' + random_below(key, draw++, seed % 2 ? 2 : 4));
      }
      counts[word] += static_cast<int64_t>(random_below(key, draw++, 4)) + 1;
    }
    std::vector<WordCount> words;
    for (const auto& [word, count] : counts) words.push_back({word, count});
    EXPECT_EQ(plain(learn(words, 80, 2)), plain(slow_learn(words, 80, 2))) << "seed " << seed;
  }
}

}  // namespace
}  // namespace plumb
