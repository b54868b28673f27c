// T5's normalizer and blanks, on the reference data's tokenizer.
#include <gtest/gtest.h>

#include "plumb/tokenizer.h"
#include "support/files.h"
#include "text/tokenizer_impl.h"

namespace plumb {
namespace {

std::string normalized(const Tokenizer& t, const std::string& text) {
  Aligned whole{.text = text, .places = {}};
  t.impl().normalizer(whole);
  return whole.text;
}

// huggingface/tokenizers#2334, google/sentencepiece#329
TEST(Cases, B52TheLongestRuleAndNothingLost) {
  SKIP_WITHOUT(test::shared_path("tokenizers/t5"));
  const Tokenizer t = Tokenizer::load(test::shared_path("tokenizers/t5").string());
  EXPECT_EQ(normalized(t, "\u00AA"), "a");
  EXPECT_EQ(normalized(t, "\u00AA\u0300"), "\u00E0");
  EXPECT_EQ(normalized(t, "\uFE30"), "..");
  EXPECT_EQ(normalized(t, "Tie\u0302\u0301ng Vie\u0323\u0302t"), "Ti\u1EBFng Vi\u1EC7t");
}

// google-research/text-to-text-transfer-transformer#390, huggingface/transformers#6150
TEST(Cases, B53BlanksAreFolded) {
  SKIP_WITHOUT(test::shared_path("tokenizers/t5"));
  const Tokenizer t = Tokenizer::load(test::shared_path("tokenizers/t5").string());
  const auto ids = t.encode("Hi there I'm good");
  ASSERT_GT(ids.size(), 3u);
  for (const char* text :
       {"Hi  there   I'm good", "Hi\tthere\nI'm\r\ngood", "Hi there I'm good\n", "  Hi there I'm good "})
    EXPECT_EQ(t.encode(text), ids) << text;
  for (const char* blank : {"", " ", "   \n\t "}) EXPECT_EQ(t.encode(blank), std::vector<int32_t>{}) << blank;
  const Tokenizer bytes = Tokenizer::bytes();  // which keeps blanks
  EXPECT_NE(bytes.encode("a  b"), bytes.encode("a b"));
}

}  // namespace
}  // namespace plumb
