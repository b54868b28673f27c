#include "text/unigram_trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/random.h"

namespace plumb {
namespace {

std::vector<std::string> letters(const std::string& all) {
  std::vector<std::string> list;
  for (const char c : all) list.emplace_back(1, c);
  return list;
}

std::map<std::string, double> by_text(const std::vector<UnigramPiece>& pieces) {
  std::map<std::string, double> result;
  for (const UnigramPiece& piece : pieces) result[piece.text] = piece.score;
  return result;
}

TEST(UnigramTrainer, FindsWhatWordsAreMadeOf) {
  std::vector<WordCount> words;
  for (const std::string a : {"ground", "water", "fire", "wind"}) {
    for (const std::string b : {"mill", "house", "fall", "place"}) words.push_back({a + b, 20});
  }
  const auto pieces = by_text(learn_unigram(
      words, {.pieces = 26 + 8, .required = letters("abcdefghijklmnopqrstuvwxyz"), .longest = 6}));
  EXPECT_EQ(pieces.size(), 34u);
  for (const char* part : {"ground", "water", "fire", "wind", "mill", "house", "fall", "place"})
    EXPECT_TRUE(pieces.contains(part)) << part;
}

TEST(UnigramTrainer, ScoresAreProbabilitiesAndFall) {
  const auto pieces =
      learn_unigram({{"abab", 50}, {"abc", 30}, {"ccc", 10}}, {.pieces = 6, .required = letters("abc")});
  double sum = 0, last = 0;
  for (const UnigramPiece& piece : pieces) {
    EXPECT_LE(piece.score, last);
    last = piece.score;
    sum += std::exp(piece.score);
  }
  EXPECT_GT(sum, 0.7);
  EXPECT_LT(sum, 1.01);
}

TEST(UnigramTrainer, KeepsTheRequiredCharactersAndNothingOfOthers) {
  const auto pieces =
      by_text(learn_unigram({{"aXbXab", 100}, {"ab", 9}}, {.pieces = 10, .required = letters("abz")}));
  EXPECT_TRUE(pieces.contains("z")) << "never seen, and kept";
  for (const auto& [text, score] : pieces) {
    EXPECT_EQ(text.find('X'), std::string::npos) << text;
    EXPECT_TRUE(std::isfinite(score)) << text;
  }
  EXPECT_TRUE(pieces.contains("ab"));
  EXPECT_EQ(learn_unigram({}, {.pieces = 5, .required = letters("a")}).size(), 1u);
}

TEST(UnigramTrainer, NoPieceIsLongerThanAsked) {
  const auto pieces = learn_unigram({{"äöüäöüäöü", 40}, {"äöü", 40}},
                                    {.pieces = 40, .required = {"ä", "ö", "ü"}, .longest = 2});
  size_t longest = 0;
  for (const UnigramPiece& piece : pieces) longest = std::max(longest, piece.text.size());
  EXPECT_EQ(longest, 4u) << "two characters of two bytes";
}

}  // namespace
}  // namespace plumb
