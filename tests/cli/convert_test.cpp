// plumb convert: the same model in another folder.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/safetensors.h"
#include "ops/linear.h"
#include "plumb/model.h"
#include "plumb/tokenizer.h"
#include "support/files.h"
#include "support/process.h"

namespace plumb::test {
namespace {

TEST(Convert, DtypeShardsNamesAndTheTokenizer) {
  const TempFolder folder;
  ModelConfig c = family_default("llama");
  c.vocab_size = 259;
  c.width = 16;
  c.max_length = 32;
  c.decoder_layers = 2;
  const std::string from = folder / "from", to = folder / "to";
  Model::create(c, 1).save(from);
  Tokenizer::bytes().save(from);
  const auto convert = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "convert");
    return run_plumb(arguments);
  };
  auto result = convert({from, to, "--dtype", "bf16", "--shard-size", "5KB"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(std::filesystem::exists(to + "/model.safetensors.index.json"));
  EXPECT_EQ(Model::load(to).parameters()[0].stored, "bf16");
  EXPECT_EQ(nlohmann::json::parse(read_file(to + "/config.json")).at("dtype"), "bfloat16");
  EXPECT_EQ(Tokenizer::load(to).encode("ab"), Tokenizer::bytes().encode("ab"));

  // As it is stored, in one file again: bit for bit.
  ASSERT_EQ(convert({from, folder / "same"}).exit_code, 0);
  EXPECT_EQ(read_file(folder / "same/model.safetensors"), read_file(from + "/model.safetensors"));
  ASSERT_EQ(convert({to, folder / "half"}).exit_code, 0);
  EXPECT_EQ(Model::load(folder / "half").parameters()[0].stored, "bf16");

  ASSERT_EQ(convert({from, folder / "named", "--model-type", "plumbline"}).exit_code, 0);
  const Model named = Model::load(folder / "named");
  EXPECT_EQ(named.config().model_type, "plumbline");
  EXPECT_EQ(named.parameters()[0].file_name, named.parameters()[0].name);

  const auto refused = [&](const std::vector<std::string>& arguments, int code, const std::string& names) {
    result = convert(arguments);
    EXPECT_TRUE(is_one_line_error(result, code)) << result.err;
    EXPECT_NE(result.err.find(names), std::string::npos) << result.err;
  };
  refused({from, from}, 2, "another folder");
  refused({from, to, "--shard-size", "0MB"}, 2, "--shard-size is \"0MB\"");
  refused({from, to, "--shard-size", "5TB"}, 2, "--shard-size is \"5TB\"");
  refused({from, to, "--dtype", "f64"}, 2, "f64");
  refused({from, to, "--model-type", "gpt2"}, 1, "gpt2");
  refused({folder / "none", to}, 1, "is not a folder");
}

// A file of matrices in bf16 beside norms in f32.
TEST(Convert, WhatIsStoredInTwoTypesLosesNothing) {
  const TempFolder folder;
  ModelConfig c = family_default("llama");
  c.vocab_size = 11;
  c.width = 16;
  c.decoder_layers = 1;
  const std::string from = folder / "from", to = folder / "to";
  Model::create(c, 1).save(from);
  for (const float gain : {1.001F, 1.5F}) {  // which bf16 does not hold, and holds
    std::vector<SavedTensor> tensors;
    {
      const SafetensorsFile file(from + "/model.safetensors");
      for (const auto& entry : file.entries()) {
        const Tensor value = owned_f32(file.tensor(entry.name, entry.dtype)).clone();
        const bool norm = value.shape().rank() == 1;
        if (norm) value.f32()[0] = gain;
        tensors.push_back({entry.name, value, norm ? DType::f32 : DType::bf16});
      }
    }
    write_safetensors(from + "/model.safetensors", std::move(tensors));
    ASSERT_EQ(run_plumb({"convert", from, to}).exit_code, 0);
    const SafetensorsFile file(to + "/model.safetensors");
    EXPECT_EQ(file.find("model.norm.weight")->dtype, gain == 1.5F ? DType::bf16 : DType::f32);
    const auto stored = file.find("model.norm.weight")->dtype;
    EXPECT_EQ(owned_f32(file.tensor("model.norm.weight", stored)).f32()[0], gain);
  }
}

TEST(Merge, AnAdapterAndItsModelAsOneFolder) {
  const TempFolder folder;
  ModelConfig c = family_default("llama");
  c.vocab_size = 259;
  c.width = 16;
  c.max_length = 32;
  c.decoder_layers = 1;
  const std::string base = folder / "base", run = folder / "run", adapter = run + "/model",
                    to = folder / "to";
  Model::create(c, 1).save(base);
  Tokenizer::bytes().save(base);
  std::ofstream(folder / "lines.jsonl") << [] {
    std::string lines;
    for (int i = 0; i < 60; ++i) lines += "{\"prompt\": \"ab\", \"completion\": \"cd\"}\n";
    return lines;
  }();
  auto result = run_plumb({"train",
                           "--from",
                           base,
                           "--text",
                           folder / "lines.jsonl",
                           "--lora",
                           "2",
                           "--lora-targets",
                           "q_proj",
                           "--lora-targets",
                           "down_proj",
                           "--dora",
                           "--steps",
                           "3",
                           "--batch",
                           "1",
                           "--length",
                           "32",
                           "--sample-tokens",
                           "0",
                           "--out",
                           run});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(std::filesystem::exists(adapter + "/adapter_model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(adapter + "/config.json"));

  result = run_plumb({"merge", run, to});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FALSE(std::filesystem::exists(to + "/adapter_config.json"));
  EXPECT_EQ(Tokenizer::load(to).encode("ab"), Tokenizer::bytes().encode("ab"));
  const auto written = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "complete");
    arguments.insert(arguments.end(), {"ab", "--max-new-tokens", "8"});
    const auto done = run_plumb(arguments);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return done.out;
  };
  EXPECT_EQ(written({run}), written({to}));

  // The model moved, and the adapter without a tokenizer.
  std::filesystem::rename(base, folder / "moved");
  std::filesystem::remove(adapter + "/tokenizer.json");
  result = run_plumb({"info", run});
  EXPECT_TRUE(is_one_line_error(result, 1)) << result.err;
  EXPECT_NE(result.err.find("--base"), std::string::npos) << result.err;
  EXPECT_EQ(written({adapter, "--base", folder / "moved"}), written({to}));
  result = run_plumb({"merge", folder / "moved", to});
  EXPECT_TRUE(is_one_line_error(result, 2)) << result.err;
}

}  // namespace
}  // namespace plumb::test
