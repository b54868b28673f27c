#include "text/word_counts.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "base/random.h"
#include "base/test_support.h"
#include "plumb/signal.h"

namespace plumb {
namespace {

class WordCountsTest : public testing::Test {
 protected:
  WordCountsTest() {
    const Json json = {{"type", "WhitespaceSplit"}};
    const std::string file = "test";
    blanks_.set_part("pre_tokenizer", JsonAt(json, file));
    uint64_t draw = 0;
    for (const char* name : {"a", "b", "c"}) {
      std::string text;
      while (text.size() < 400'000) {  // the first words often, the last ones once
        const uint64_t most = random_below(key_, draw, 20) == 0 ? 100'000 : 300;
        const std::string word = "w" + std::to_string(random_below(key_, ++draw, most));
        text += word + " ";
        ++counts_[word];
      }
      write_file_atomically(folder_ / name, text);
    }
    set_log_level(LogLevel::error);
  }
  ~WordCountsTest() override { set_log_level(LogLevel::info); }

  std::map<std::string, int64_t> counted(uint64_t memory) const {
    std::map<std::string, int64_t> result;
    std::string last;
    for (const WordCount& word : count_words({folder_.str()}, blanks_, {.memory = memory})) {
      EXPECT_LT(last, word.word) << "sorted, each once";
      last = word.word;
      result[word.word] = word.count;
    }
    return result;
  }

  const RandomKey key_{5, 9};
  TempFolder folder_;
  Tokenizer::Impl blanks_;
  std::map<std::string, int64_t> counts_;
};

TEST_F(WordCountsTest, CountsAllFiles) {
  EXPECT_EQ(counted(1 << 30), counts_);
}

// Every file goes to a temporary one, and yet what is kept has its whole count: all words from some count on.
TEST_F(WordCountsTest, BoundedMemoryKeepsTheFrequentWordsExactly) {
  const uint64_t memory = 100'000;
  const auto kept = counted(memory);
  ASSERT_GT(kept.size(), 300u);
  ASSERT_LT(kept.size(), counts_.size());
  int64_t least = INT64_MAX;
  for (const auto& [word, count] : kept) {
    EXPECT_EQ(count, counts_.at(word)) << word;
    least = std::min(least, count);
  }
  for (const auto& [word, count] : counts_) EXPECT_EQ(count >= least, kept.contains(word)) << word;
}

TEST_F(WordCountsTest, StopsWhenAsked) {
  request_stop();
  EXPECT_EQ(error_of(ErrorKind::interrupted, [&] { counted(1 << 30); }), "stopped: nothing was saved");
  forget_stop();
}

}  // namespace
}  // namespace plumb
