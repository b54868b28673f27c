#include "text/word_memory.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "text/bpe_model.h"

namespace plumb {
namespace {

using Ids = std::vector<int32_t>;

TEST(WordMemory, HoldsTheOwnersWordAlone) {
  WordSlot slot;
  const uint32_t owner = new_word_owner(), other = new_word_owner();
  EXPECT_NE(owner, other);
  slot.fill(owner, "word", Ids{7, 8});
  EXPECT_TRUE(slot.holds(owner, "word"));
  EXPECT_EQ(Ids(slot.ids().begin(), slot.ids().end()), (Ids{7, 8}));
  EXPECT_FALSE(slot.holds(other, "word"));
  EXPECT_FALSE(slot.holds(owner, "wort"));
  EXPECT_FALSE(slot.holds(owner, "words"));
  const std::string longest(WordSlot::kMostBytes, 'x');
  slot.fill(owner, longest, Ids(18, 3));
  EXPECT_TRUE(slot.holds(owner, longest));
  slot.fill(owner, "word", Ids(30, 3));  // does not fit
  EXPECT_TRUE(slot.holds(owner, longest));
}

// Letters a, b and c, and one merge.
ReadModel model_with(char left, char right) {
  Vocabulary vocabulary;
  for (int32_t id = 0; id < 3; ++id) vocabulary.add(id, std::string(1, static_cast<char>('a' + id)));
  vocabulary.add(3, std::string{left, right});
  return make_bpe(std::move(vocabulary), {{left - 'a', right - 'a', 3}}, {}, false);
}

// Words that are met again, of two models in two threads: their ids are those that encode() finds.
TEST(WordMemory, ModelsAndThreadsDoNotMix) {
  const ReadModel models[] = {model_with('a', 'b'), model_with('b', 'c')};
  const auto work = [&](uint64_t seed) {
    uint64_t draw = 0;
    for (int i = 0; i < 2000; ++i) {
      std::string word;
      for (uint64_t n = 1 + random_below({seed, 0}, draw++, 6); n > 0; --n)
        word += static_cast<char>('a' + random_below({seed, 0}, draw++, 3));
      for (const ReadModel& read : models) {
        std::vector<ModelToken> tokens;
        read.model->encode(word, tokens);
        Ids expected = {-1}, ids = {-1};
        for (const ModelToken& token : tokens) expected.push_back(token.id);
        read.model->encode_ids(word, ids);
        EXPECT_EQ(ids, expected) << word;
      }
    }
  };
  std::thread other(work, 1);
  work(2);
  other.join();
}

}  // namespace
}  // namespace plumb
