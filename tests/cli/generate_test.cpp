// plumb generate: where prompts come from, what comes out, and how it refuses.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "plumb/generator.h"
#include "support/files.h"
#include "support/process.h"

namespace plumb::test {
namespace {

ModelConfig byte_decoder() {
  ModelConfig c;
  c.vocab_size = 259;
  c.width = 32;
  c.max_length = 64;
  c.decoder_layers = 2;
  c.bos_id = 256;
  c.eos_ids = {256};
  c.init_std = 0.3;
  return c;
}

class GenerateCommand : public testing::Test {
 protected:
  void SetUp() override {
    Model::create(byte_decoder(), 3).save(folder_ / "model");
    Tokenizer::bytes().save(folder_ / "model");
  }
  ProcessResult run(std::vector<std::string> arguments, const std::string& input = "") const {
    arguments.insert(arguments.begin(), {"generate", folder_ / "model"});
    ProcessOptions options;
    options.input = input;
    return run_plumb(arguments, options);
  }
  // What the library writes for the same.
  std::string written(const std::string& prompt, const GenerateOptions& options) const {
    const Model model = Model::load(folder_ / "model");
    const Tokenizer tokenizer = Tokenizer::load(folder_ / "model");
    return Generator(model, tokenizer).generate(prompt, options).text;
  }
  void expect_refusal(const std::vector<std::string>& arguments, int code, const std::string& names,
                      const std::string& input = "") const {
    const auto result = run(arguments, input);
    EXPECT_TRUE(is_one_line_error(result, code)) << result.exit_code << " " << result.err;
    EXPECT_NE(result.err.find(names), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  }

  TempFolder folder_;
};

TEST_F(GenerateCommand, WritesWhatTheLibraryWrites) {
  GenerateOptions options;
  options.max_new_tokens = 20;
  const auto greedy = run({"hello", "--max-new-tokens", "20"});
  EXPECT_EQ(greedy.exit_code, 0) << greedy.err;
  EXPECT_EQ(greedy.out, written("hello", options) + "\n");
  EXPECT_EQ(greedy.err, "");
  options.temperature = 0.9;
  options.top_k = 50;
  options.top_p = 0.95;
  options.min_p = 0.01;
  options.repetition_penalty = 1.1;
  options.seed = 7;
  options.prefill_chunk = 2;
  options.ignore_eos = true;
  const std::vector<std::string> flags = {
      "hello", "--max-new-tokens", "20",   "--temperature",   "0.9",  "--top-k",
      "50",    "--top-p",          "0.95", "--min-p",         "0.01", "--repetition-penalty",
      "1.1",   "--seed",           "7",    "--prefill-chunk", "2",    "--ignore-eos"};
  const std::string expected = written("hello", options) + "\n";
  EXPECT_EQ(run(flags).out, expected);
  EXPECT_EQ(run(flags).out, expected);
  EXPECT_NE(expected, greedy.out);
}

TEST_F(GenerateCommand, PromptsComeFromArgumentsFileOrInput) {
  const std::vector<std::string> short_ones = {"--max-new-tokens", "5"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), short_ones.begin(), short_ones.end());
    return more;
  };
  GenerateOptions options;
  options.max_new_tokens = 5;
  const std::string one = written("one", options) + "\n", two = written("two", options) + "\n";
  EXPECT_EQ(run(with({"one", "two"})).out, one + two);
  EXPECT_EQ(run(with({}), "one\ntwo\n").out, one + two);
  EXPECT_EQ(run(with({}), "one\ntwo").out, one + two);
  EXPECT_EQ(run(with({"--batch", "2"}), "one\ntwo\n").out, one + two);
  EXPECT_EQ(run(with({}), "").out, "");
  EXPECT_EQ(run(with({}), "\n").out, written("", options) + "\n");
  EXPECT_EQ(run(with({""})).out, written("", options) + "\n");
  write_file(folder_ / "prompt.txt", "two\nlines");
  EXPECT_EQ(run(with({"--file", folder_ / "prompt.txt"})).out, written("two\nlines", options) + "\n");
}

// What is sampled for a prompt depends on its number, and not on how many are computed side by side.
TEST_F(GenerateCommand, SampledTextsAreTheSameInBatchesOfAnySize) {
  const auto with = [&](const char* batch) {
    return run({"--temperature", "2", "--seed", "5", "--max-new-tokens", "8", "--batch", batch},
               "same\nsame\nother\nsame\nsame\n")
        .out;
  };
  const std::string one = with("1");
  EXPECT_EQ(with("2"), one);
  EXPECT_EQ(with("5"), one);
  EXPECT_NE(one.substr(0, one.find('\n')), one.substr(one.find('\n') + 1, one.find('\n')))
      << "equal prompts differ by their number";
}

TEST_F(GenerateCommand, WhatTheModelsFilesSayHoldsUntilAFlagSaysOtherwise) {
  const std::vector<std::string> quiet = {"hello", "--max-new-tokens", "20"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), quiet.begin(), quiet.end());
    return run(more).out;
  };
  const std::string plain = with({}), penalized = with({"--repetition-penalty", "5"}),
                    narrow = with({"--temperature", "3", "--min-p", "0.9"});
  EXPECT_NE(plain, penalized);
  EXPECT_NE(plain, narrow);
  const auto say = [&](const std::string& json) {
    write_file(folder_ / "model/generation_config.json", json);
  };
  say(R"({"eos_token_id": 256, "repetition_penalty": 5.0})");
  EXPECT_EQ(with({}), penalized) << "also where the likeliest token is taken";
  EXPECT_EQ(with({"--repetition-penalty", "1"}), plain);
  say(R"({"eos_token_id": 256, "do_sample": true, "temperature": 3.0, "min_p": 0.9})");
  EXPECT_EQ(with({}), narrow);
  say(R"({"eos_token_id": 256, "temperature": 3.0, "min_p": 0.9})");
  EXPECT_EQ(with({}), plain) << "nothing is sampled";
  say(R"({"eos_token_id": 256, "forced_eos_token_id": 259})");
  expect_refusal({"hello"}, 1,
                 "forced_eos_token_id of the model's files is 259, outside the vocabulary of 259");
}

TEST_F(GenerateCommand, LinesAreJson) {
  const auto result = run({"--lines", "--max-new-tokens", "8", "--batch", "3", "--temperature", "2"},
                          "a \"quoted\" \\ prompt\t\n\nthird\nfourth\n");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::istringstream lines(result.out);
  std::vector<nlohmann::json> all;
  for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0]["prompt"], "a \"quoted\" \\ prompt\t");
  EXPECT_EQ(all[1]["prompt_tokens"], 1);
  const Tokenizer tokenizer = Tokenizer::bytes();
  for (const auto& line : all) {
    const auto ids = line["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(line["text"], tokenizer.decode(ids));
    EXPECT_EQ(line["end"], ids.back() == 256 ? "eos" : "max_new_tokens");
  }
}

TEST_F(GenerateCommand, WeightsInSixteenBitsAndRunFolders) {
  for (const char* dtype : {"bf16", "f16", "f32"}) {
    EXPECT_EQ(run({"x", "--max-new-tokens", "3", "--dtype", dtype}).exit_code, 0);
  }
  const auto from_run = run_plumb({"generate", folder_.path().string(), "x", "--max-new-tokens", "3"});
  EXPECT_EQ(from_run.out, run({"x", "--max-new-tokens", "3"}).out);
}

TEST_F(GenerateCommand, RefusesInOneLine) {
  expect_refusal({"x", "--temprature", "1"}, 2, "did you mean \"--temperature\"?");
  expect_refusal({"x", "--top-p", "1.5"}, 2, "top_p is 1.5, expected 0 to 1");
  expect_refusal({"x", "--top-k", "many"}, 2, "--top-k");
  expect_refusal({"x", "--max-new-tokens", "0"}, 2, "max_new_tokens");
  expect_refusal({"x", "--stop", ""}, 2, "stop");
  expect_refusal({"x", "--batch", "0"}, 2, "--batch");
  expect_refusal({"x", "--dtype", "f61"}, 2, "f61");
  expect_refusal({"x", "--file", folder_ / "model"}, 2, "--file");
  expect_refusal({"--file", folder_ / "nothing.txt"}, 1, "nothing.txt");
  expect_refusal({"--file", folder_ / "model"}, 1, "folder");
  expect_refusal({"\xff"}, 1, "UTF-8");
  expect_refusal({std::string(64, 'x')}, 1, "max_length");
  const auto missing = run_plumb({"generate", folder_ / "nowhere", "x"});
  EXPECT_TRUE(is_one_line_error(missing, 1)) << missing.err;
  EXPECT_NE(missing.err.find("nowhere"), std::string::npos) << missing.err;
}

TEST_F(GenerateCommand, OutputThatCannotBeWrittenIsAnError) {
  const auto result =
      run_process({"sh", "-c", "\"$0\" generate \"$1\" hello > /dev/full", PLUMB_COMMAND, folder_ / "model"});
  EXPECT_TRUE(is_one_line_error(result, 1)) << result.err;
  EXPECT_NE(result.err.find("No space left"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace plumb::test
