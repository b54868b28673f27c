// plumb trace: what it says, and what it refuses.
#include <gtest/gtest.h>

#include "plumb/model.h"
#include "plumb/tokenizer.h"
#include "support/files.h"
#include "support/process.h"

namespace plumb::test {
namespace {

void save_model(const std::string& folder, ModelConfig c) {
  c.vocab_size = Tokenizer::bytes().vocab_size();
  c.width = 16;
  c.max_length = 24;
  Model::create(c, 1).save(folder);
  Tokenizer::bytes().save(folder);
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

TEST(TraceCommand, WalksEachKindOfModel) {
  const TempFolder folder;
  save_model(folder / "run/model", {.decoder_layers = 2});
  const auto decoder = run_plumb({"trace", folder / "run", "one", "--grad"});
  EXPECT_EQ(decoder.exit_code, 0) << decoder.err;
  for (const char* part : {"3 tokens: 0:\"o\" 1:\"n\" 2:\"e\"", "softmax(q k^T)  (1, 4, 3, 3)",
                           "the same as layer 0", "y = x + F(N(x))   (layers 0 to 1, pre-norm)",
                           "decoder.1.feed_forward.norm_in", "over 2 targets", "straight"}) {
    EXPECT_TRUE(says(decoder.out, part)) << part << "\n" << decoder.out;
  }
  ModelConfig both{.encoder_layers = 1, .decoder_layers = 1};
  both.decoder_start_id = 256;
  save_model(folder / "both", both);
  const auto translator = run_plumb({"trace", folder / "both", "one", "--target", "ab"});
  EXPECT_EQ(translator.exit_code, 0) << translator.err;
  EXPECT_TRUE(says(translator.out, "decoder layer 0's cross-attention")) << translator.out;
  EXPECT_TRUE(says(translator.out, "softmax(q k^T)  (1, 4, 3, 4)")) << translator.out;  // 3 tokens read 4
  EXPECT_FALSE(says(translator.out, "The way back")) << translator.out;
  save_model(folder / "encoder", {.encoder_layers = 1, .decoder_layers = 0});
  const auto encoder = run_plumb({"trace", folder / "encoder", "one two three", "--grad"});
  EXPECT_EQ(encoder.exit_code, 0) << encoder.err;
  EXPECT_TRUE(says(encoder.out, "Masked-token loss of the text: ")) << encoder.out;
  EXPECT_TRUE(says(encoder.out, "over 2 targets")) << encoder.out;
}

TEST(TraceCommand, BadInputIsOneLine) {
  const TempFolder folder;
  save_model(folder / "m", {.decoder_layers = 1});
  const auto refused = [&](std::vector<std::string> arguments, int code, const std::string& reason) {
    arguments.insert(arguments.begin(), "trace");
    const auto result = run_plumb(arguments);
    EXPECT_TRUE(is_one_line_error(result, code)) << result.exit_code << result.err;
    EXPECT_TRUE(says(result.err, reason)) << result.err;
  };
  refused({folder / "m"}, 2, "text");
  refused({folder / "none", "one"}, 1, "none");
  refused({folder / "m", ""}, 1, "the text is empty");
  refused({folder / "m", std::string(25, 'a')}, 1, "25 tokens is longer than the 24");
  refused({folder / "m", "\xff"}, 1, "UTF-8");
  refused({folder / "m", "a", "--target", "b"}, 2, "encoder-decoders");
  refused({folder / "m", "a", "--grad"}, 1, "too short");
}

}  // namespace
}  // namespace plumb::test
