// plumb score: what comes in and what goes out.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "plumb/score.h"
#include "support/files.h"
#include "support/process.h"

namespace plumb::test {
namespace {

class ScoreCommand : public testing::Test {
 protected:
  void SetUp() override {
    ModelConfig c;
    c.vocab_size = 259;
    c.width = 16;
    c.max_length = 32;
    c.decoder_layers = 1;
    c.bos_id = 256;
    c.init_std = 0.3;
    Model::create(c, 3).save(folder_ / "m");
    Tokenizer::bytes().save(folder_ / "m");
  }
  ProcessResult run(std::vector<std::string> arguments, const std::string& input = "") const {
    arguments.insert(arguments.begin(), {"score", folder_ / "m"});
    ProcessOptions options;
    options.input = input;
    return run_plumb(arguments, options);
  }
  void expect_refused(const ProcessResult& result, int code, const std::string& names) const {
    EXPECT_TRUE(is_one_line_error(result, code)) << result.err;
    EXPECT_NE(result.err.find(names), std::string::npos) << result.err;
  }

  TempFolder folder_;
};

TEST_F(ScoreCommand, AText) {
  const std::string text = "one text that is longer than the model reads at once, so it strides";
  write_file(folder_ / "t.txt", text);
  const auto result = run({"--text", folder_ / "t.txt", "--length", "16", "--stride", "4"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto j = nlohmann::json::parse(result.out);
  const TextScore score = score_text(Model::load(folder_ / "m"), Tokenizer::load(folder_ / "m"), text,
                                     {.length = 16, .stride = 4});
  EXPECT_NEAR(j.at("loss"), score.loss(), 1e-6);
  EXPECT_NEAR(j.at("perplexity"), score.perplexity(), 1e-3);
  EXPECT_NEAR(j.at("bits_per_byte"), score.nll / std::log(2) / static_cast<double>(text.size()), 1e-6);
  EXPECT_EQ(j.at("tokens"), text.size() - 1);
  EXPECT_EQ(nlohmann::json::parse(run({"--text", folder_ / "t.txt"}).out).at("stride"), 16);
  expect_refused(run({"--text", folder_ / "t.txt", "--stride", "33"}), 2, "stride is 33, expected 1 to 32");
  expect_refused(run({"--text", folder_ / "no.txt"}), 1, "no.txt");
  expect_refused(run({"--text", folder_ / "t.txt", "--file", "x"}), 2, "--text");
}

TEST_F(ScoreCommand, Choices) {
  const std::string lines =
      "{\"prompt\": \"a \\\"b\\\"\", \"choices\": [\"c\", \"\\u00e9\"]}\n\n"
      "{\"choices\": [\"x\"], \"prompt\": \"\"}\n";
  const auto result = run({}, lines);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  write_file(folder_ / "q.jsonl", lines);
  EXPECT_EQ(run({"--file", folder_ / "q.jsonl", "--batch", "1"}).out, result.out);
  const size_t end = result.out.find('\n');
  const auto first = nlohmann::json::parse(result.out.substr(0, end));
  const auto second = nlohmann::json::parse(result.out.substr(end));
  const auto scores =
      score_choices(Model::load(folder_ / "m"), Tokenizer::load(folder_ / "m"), "a \"b\"", {"c", "\xc3\xa9"});
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(first.at("choices")[i].at("log_probability"), scores[i].log_probability, 1e-5);
    EXPECT_EQ(first.at("choices")[i].at("tokens"), scores[i].tokens);
  }
  EXPECT_EQ(first.at("choices")[1].at("text"), "\xc3\xa9");
  EXPECT_EQ(first.at("best"), scores[0].log_probability > scores[1].log_probability ? 0 : 1);
  EXPECT_EQ(second.at("choices").size(), 1u);
  for (const char* bad :
       {"{}", "{\"prompt\": \"a\", \"choices\": []}", "[", "{\"prompt\": 3, \"choices\": [\"a\"]}"})
    expect_refused(run({}, std::string(bad) + "\n"), 1, "line 1 of the standard input: expected");
}

}  // namespace
}  // namespace plumb::test
