// `plumb train` on JSON lines of prompt and completion.
#include "train_run.h"

namespace plumb::test {
namespace {

TEST_F(TrainCommand, LearnsCompletionsFromJsonLines) {
  std::string lines;
  for (int i = 0; i < 60; ++i) {
    const std::string word(1 + i % 3, static_cast<char>('a' + i % 4));
    lines += "{\"prompt\": \"" + word + "=\", \"completion\": \"" + word + "\"}\n";
  }
  write_file(folder / "pairs.jsonl", lines);
  const ProcessResult r = train({"--text", "pairs.jsonl", "--steps", "60", "--lr", "0.01", "--out", "run"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const auto steps = metrics("run");
  EXPECT_GT(steps.front().at("nll"), 3.5) << "bytes, at the start";
  const auto evaluation =
      nlohmann::json::parse(plumb({"eval", "run", "--text", "pairs.jsonl", "--length", "16"}).out);
  EXPECT_EQ(evaluation.at("targets"), 60 + 120) << "each completion and its end";
  EXPECT_LT(evaluation.at("loss"), 1.5);
  const ProcessResult score =
      plumb({"score", "run"}, {.input = "{\"prompt\": \"a=\", \"choices\": [\"a\", \"z\"]}\n"});
  EXPECT_EQ(nlohmann::json::parse(score.out).at("best"), 0) << score.err;
  expect_error(train({"--text", "pairs.jsonl", "--tokenizer", "bpe", "--out", "other"}), 2, {"JSON lines"});
  expect_error(train({"--text", "pairs.jsonl", "--length", "4", "--out", "short"}), 1,
               {"pairs.jsonl, line", "--length"});
}

}  // namespace
}  // namespace plumb::test
