#include "text/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/random.h"
#include "text/bpe_trainer.h"

namespace plumb {
namespace {

std::array<int32_t, 256> identity() {
  std::array<int32_t, 256> ids;
  for (int i = 0; i < 256; ++i) ids[static_cast<size_t>(i)] = i;
  return ids;
}

std::vector<int32_t> encode(const Bpe& bpe, std::string_view word) {
  std::vector<int32_t> ids;
  EXPECT_EQ(bpe.encode_word(word, ids), word.size());
  return ids;
}

// The definition, in cubic time: while there is one, join the leftmost of the pairs with the lowest rank.
std::vector<int32_t> slow_encode(const std::vector<BpeMerge>& merges, std::string_view word) {
  std::map<std::pair<int32_t, int32_t>, size_t> rank;
  for (size_t i = 0; i < merges.size(); ++i) rank[{merges[i].left, merges[i].right}] = i;
  std::vector<int32_t> ids;
  for (const char c : word) ids.push_back(static_cast<unsigned char>(c));
  while (true) {
    size_t best = merges.size(), place = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = rank.find({ids[i], ids[i + 1]});
      if (found != rank.end() && found->second < best) best = found->second, place = i;
    }
    if (best == merges.size()) return ids;
    ids[place] = merges[best].joined;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(place) + 1);
  }
}

TEST(Bpe, B55MergesByRankAndLeftmostFirst) {
  const Bpe by_rank(identity(), {{'b', 'c', 256}, {'a', 'b', 257}});
  EXPECT_EQ(encode(by_rank, "abc"), (std::vector<int32_t>{'a', 256}));
  const Bpe same(identity(), {{'a', 'a', 256}});
  EXPECT_EQ(encode(same, "aaa"), (std::vector<int32_t>{256, 'a'}));
  EXPECT_EQ(encode(same, "aaaaa"), (std::vector<int32_t>{256, 256, 'a'}));
}

TEST(Bpe, ByteWithoutATokenStops) {
  auto ids = identity();
  ids['x'] = -1;
  std::vector<int32_t> out;
  EXPECT_EQ(Bpe(ids, {}).encode_word("abxc", out), 2u);
}

TEST(Bpe, OfAPairGivenTwiceTheLastCounts) {
  const Bpe bpe(identity(), {{'a', 'b', 256}, {'b', 'c', 257}, {'a', 'b', 258}});
  EXPECT_EQ(encode(bpe, "abc"), (std::vector<int32_t>{'a', 257}));
  EXPECT_EQ(encode(bpe, "ab"), (std::vector<int32_t>{258}));
}

// Merges learned from random words over few letters, so that they nest, overlap and tie; words on both sides
// of the length where the method changes.
TEST(Bpe, AgreesWithTheDefinition) {
  const RandomKey key{11, 0};
  uint64_t draw = 0;
  const auto word = [&](uint64_t longest) {
    std::string text;
    for (uint64_t n = random_below(key, draw++, longest) + 1; n > 0; --n) {
      text += static_cast<char>('a' + random_below(key, draw++, 3));
    }
    return text;
  };
  std::vector<std::pair<std::string, int64_t>> words;
  for (int i = 0; i < 300; ++i)
    words.push_back({word(20), 1 + static_cast<int64_t>(random_below(key, draw++, 5))});
  SymbolWords symbols;
  for (const auto& [text, count] : words) symbols.add({text.begin(), text.end()}, count);
  std::vector<std::string> tokens;
  for (int i = 0; i < 256; ++i) tokens.emplace_back(1, static_cast<char>(i));
  const std::vector<BpeMerge> merges = learn_merges(std::move(symbols), tokens, {.most_tokens = 256 + 150});
  ASSERT_GT(merges.size(), 100u);
  const Bpe bpe(identity(), merges);
  for (int i = 0; i < 600; ++i) {
    const std::string text = word(i % 2 ? 30 : 200);
    EXPECT_EQ(encode(bpe, text), slow_encode(merges, text)) << text;
  }
}

TEST(Bpe, LongWordsTakeLittleTime) {
  const Bpe bpe(identity(), {{'a', 'a', 256}, {256, 256, 257}, {257, 257, 258}});
  EXPECT_EQ(encode(bpe, std::string(1 << 18, 'a')), std::vector<int32_t>(1 << 15, 258));
}

}  // namespace
}  // namespace plumb
