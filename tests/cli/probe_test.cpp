// --probe of the commands that run a model.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "plumb/model.h"
#include "plumb/tokenizer.h"
#include "support/files.h"
#include "support/process.h"

namespace plumb::test {
namespace {

using nlohmann::json;

class ProbeFlags : public testing::Test {
 protected:
  ProbeFlags() {
    ModelConfig c;
    c.vocab_size = Tokenizer::bytes().vocab_size();
    c.width = 16;
    c.max_length = 64;
    c.decoder_layers = 2;
    c.bos_id = *Tokenizer::bytes().special(TokenRole::bos);
    Model::create(c, 1).save(folder / "m");
    Tokenizer::bytes().save(folder / "m");
    std::ofstream(folder / "text.txt") << std::string(1000, 'a') + "some more text";
  }
  std::vector<json> records() {
    std::vector<json> all;
    std::ifstream in(folder / "p.jsonl");
    for (std::string line; std::getline(in, line);) all.push_back(json::parse(line));
    return all;
  }
  const json& site(const json& record, const std::string& at) {
    for (const json& s : record.at("sites")) {
      if (s.at("at") == at) return s;
    }
    throw std::runtime_error("no " + at);
  }
  TempFolder folder;
};

TEST_F(ProbeFlags, EvaluationIsWatchedBatchByBatch) {
  const std::vector<std::string> eval{"eval",     folder / "m", "--text",  folder / "text.txt",
                                      "--length", "16",         "--batch", "4"};
  const ProcessResult plain = run_plumb(eval);
  std::vector<std::string> watched = eval;
  watched.insert(watched.end(), {"--probe", folder / "p.jsonl", "--probe-every", "5"});
  const ProcessResult r = run_plumb(watched);
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(json::parse(r.out).at("loss"), json::parse(plain.out).at("loss"));
  const auto all = records();  // of 1014 tokens, 16 batches
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[1].at("step"), 5);
  for (const json& record : all) {
    EXPECT_GT(record.at("loss"), 0);
    EXPECT_FALSE(record.contains("grad_norm"));
    EXPECT_TRUE(site(record, "decoder.1.attention").at("attention").contains("max_logit"));
    EXPECT_TRUE(site(record, "head").at("logits").contains("log_z"));
    EXPECT_FALSE(site(record, "decoder.1.attention").at("stream").contains("grad_norm"));
  }
}

// Each step of writing is a pass whose one query sees all that was written before.
TEST_F(ProbeFlags, WritingIsWatchedStepByStep) {
  const std::vector<std::string> write{"generate",         folder / "m", "hello",
                                       "--max-new-tokens", "4",          "--ignore-eos"};
  const ProcessResult plain = run_plumb(write);
  std::vector<std::string> watched = write;
  watched.insert(watched.end(), {"--probe", folder / "p.jsonl"});
  const ProcessResult r = run_plumb(watched);
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(r.out, plain.out);
  const auto all = records();
  ASSERT_EQ(all.size(), 4u);  // the prompt, then three tokens that are read
  EXPECT_FALSE(all[0].contains("loss"));
  EXPECT_TRUE(site(all[0], "decoder.0.attention").at("stream").contains("effective_rank"));
  EXPECT_FALSE(site(all[1], "decoder.0.attention").at("stream").contains("effective_rank"));  // of one token
  const double mass = site(all[3], "decoder.0.attention").at("attention").at("first_mass");
  EXPECT_NEAR(mass, 1.0 / 8, 0.02);  // of 8 keys, by a fresh model that looks at all alike
}

// A pass of its own, so what the command says stays what it was.
TEST_F(ProbeFlags, TraceCompareAndCheckAreWatched) {
  const auto watched = [&](std::vector<std::string> arguments, size_t passes) {
    std::filesystem::remove(folder / "p.jsonl");
    const ProcessResult plain = run_plumb(arguments);
    arguments.insert(arguments.end(), {"--probe", folder / "p.jsonl"});
    const ProcessResult r = run_plumb(arguments);
    EXPECT_EQ(r.exit_code, plain.exit_code) << r.err;
    EXPECT_EQ(r.out, plain.out);
    const auto all = records();
    EXPECT_EQ(all.size(), passes) << arguments[0];
    for (const json& record : all) {
      EXPECT_GT(site(record, "decoder.1.feed_forward").at("branch").at("rms"), 0);
      EXPECT_TRUE(site(record, "decoder.1.attention").at("attention").contains("entropy"));
      EXPECT_TRUE(site(record, "head").at("logits").contains("log_z"));
    }
    return all;
  };
  watched({"trace", folder / "m", "hello"}, 1);
  watched({"check", folder / "m"}, 1);
  Model other = Model::load(folder / "m");
  Model::create(other.config(), 2).save(folder / "n");
  const auto both = watched({"compare", folder / "m", folder / "n", "--text", "hello"}, 2);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[1].at("step"), 2);
  const auto first = [&](const json& record) {
    return site(record, "decoder.0.attention").at("stream").at("rms");
  };
  EXPECT_NE(first(both[0]), first(both[1]));
  std::filesystem::remove(folder / "p.jsonl");
  ASSERT_EQ(run_plumb({"trace", folder / "m", "hello", "--probe", folder / "p.jsonl"}).exit_code, 0);
  EXPECT_EQ(first(records()[0]), first(both[0]));  // of the same text in the same model
}

TEST_F(ProbeFlags, WhatMakesNoPassRefusesAProbe) {
  const std::string p = folder / "p.jsonl";
  EXPECT_TRUE(
      is_one_line_error(run_plumb({"compare", folder / "m", folder / "m", "--weights", "--probe", p}), 2));
  EXPECT_TRUE(is_one_line_error(run_plumb({"check", "default", "--probe", p}), 2));
  EXPECT_TRUE(is_one_line_error(run_plumb({"check", "--rules", "--probe", p}), 2));
  EXPECT_TRUE(is_one_line_error(run_plumb({"trace", folder / "m", "x", "--probe", "/no/folder/p"}), 1));
  EXPECT_TRUE(is_one_line_error(run_plumb({"trace", folder / "m", "x", "--probe-every", "2"}), 2));
}

TEST_F(ProbeFlags, BadOnesAreRefusedInOneLine) {
  EXPECT_TRUE(is_one_line_error(run_plumb({"generate", folder / "m", "x", "--probe-every", "2"}), 2));
  EXPECT_TRUE(is_one_line_error(
      run_plumb({"generate", folder / "m", "x", "--probe", folder / "p.jsonl", "--probe-every", "0"}), 2));
  EXPECT_TRUE(is_one_line_error(
      run_plumb({"eval", folder / "m", "--text", folder / "text.txt", "--probe", "/no/folder/p.jsonl"}), 1));
  EXPECT_TRUE(is_one_line_error(run_plumb({"eval", folder / "m", "--ids", "1", "--logits", folder / "l",
                                           "--probe", folder / "p.jsonl"}),
                                2));
}

}  // namespace
}  // namespace plumb::test
