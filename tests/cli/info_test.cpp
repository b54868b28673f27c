// plumb info: what it says of models on disk.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "plumb/model.h"
#include "support/files.h"
#include "support/process.h"

namespace plumb::test {
namespace {

ModelConfig small() {
  ModelConfig c = family_default("gpt2");
  c.vocab_size = 50;
  c.width = 16;
  c.max_length = 32;
  c.decoder_layers = 3;
  return c;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

TEST(Info, SaysWhatAModelIs) {
  const TempFolder folder;
  Model::create(small(), 1).save(folder / "run/model");
  for (const char* name : {"run", "run/model"}) {
    const auto result = run_plumb({"info", folder / name, "--parameters"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    for (const char* part :
         {"decoder of model_type gpt2", "decoder layers 0 to 2: y = x + F(N(x))", "pre-norm",
          "layer-norm, eps 1e-05, bias", "4 heads of 4", "decoder.2.attention.qkv.weight", "16 x 48",
          "transformer.h.2.attn.c_attn.weight", "FLOPs"}) {
      EXPECT_TRUE(says(result.out, part)) << part << "\n" << result.out;
    }
  }
}

TEST(Info, SaysWhatIsStoredAndWhatTheFormulaDoesNotTell) {
  const TempFolder folder;
  ModelConfig c = family_default("llama");
  c.model_type = "plumbline";
  c.vocab_size = 50;
  c.width = 16;
  c.max_length = 64;
  c.decoder_layers = 2;
  c.layer.rope.scaling = RopeScaling::llama3;
  c.layer.rope.factor = 8;
  c.embedding_scale = 4;
  Model::create(c, 1).save(folder / "m", StoredType::bf16);
  const auto result = run_plumb({"info", folder / "m"});
  for (const char* part : {"rope-scaling = \"llama3\", rope-factor = 8.0", "embedding-scale = 4.0",
                           "kB in bf16 and f32", "memory to write", "  64  "}) {
    EXPECT_TRUE(says(result.out, part)) << part << "\n" << result.out << result.err;
  }
}

TEST(Info, LayersThatDiffer) {
  const TempFolder folder;
  ModelConfig c = small();
  c.model_type = "plumbline";
  LayerConfig other = c.layer;
  other.placement = Placement::post_norm;
  other.window = 8;
  c.decoder_runs = {{.first = 1, .count = 1, .layer = other}};
  Model::create(c, 1).save(folder / "m");
  const auto result = run_plumb({"info", folder / "m"});
  EXPECT_TRUE(says(result.out, "decoder layers 0, 2: y = x + F(N(x))")) << result.out;
  EXPECT_TRUE(says(result.out, "decoder layer 1: y = N(x + F(x))")) << result.out;
  EXPECT_TRUE(says(result.out, "the newest 8 keys")) << result.out;
}

TEST(Info, SeveralStreams) {
  const TempFolder folder;
  ModelConfig c = small();
  c.model_type = "plumbline";
  c.layer.placement = Placement::mhc;
  Model::create(c, 1).save(folder / "m");
  const auto result = run_plumb({"info", folder / "m", "--parameters"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* part :
       {"decoder layers 0 to 2: y = H_res x + H_post F(N(H_pre x)), 4 streams", "doubly stochastic",
        "decoder.0.attention.maps.weight", "64 x 24", "decoder.2.feed_forward.maps.base"}) {
    EXPECT_TRUE(says(result.out, part)) << part << "\n" << result.out;
  }
}

TEST(Info, Json) {
  const TempFolder folder;
  const ModelConfig c = small();
  Model::create(c, 1).save(folder / "m");
  const auto result = run_plumb({"info", folder / "m", "--json", "--parameters", "--length", "8"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto j = nlohmann::json::parse(result.out);
  const ModelCost cost = model_cost(c, 8);
  EXPECT_EQ(j.at("parameters"), cost.parameters);
  EXPECT_EQ(j.at("training_flops_per_token"), cost.training_flops_per_token);
  EXPECT_EQ(j.at("layers").size(), 1u);
  EXPECT_EQ(j.at("layers")[0].at("indices"), nlohmann::json({0, 1, 2}));
  EXPECT_EQ(j.at("parameter_table").size(), model_parameters(c).size());
  EXPECT_EQ(j.at("config").at("width"), 16);
}

TEST(Info, RecipesNeedNoModel) {
  const auto gpt2 = run_plumb({"info", "gpt2-124m", "--parameters"});
  EXPECT_EQ(gpt2.exit_code, 0) << gpt2.err;
  EXPECT_TRUE(says(gpt2.out, "decoder of model_type gpt2: width 768")) << gpt2.out;
  EXPECT_TRUE(says(gpt2.out, "transformer.h.11.mlp.c_proj.weight")) << gpt2.out;
  const auto deep = run_plumb({"info", "deep-1000"});
  EXPECT_TRUE(says(deep.out, "decoder layers 0 to 999: y = N(6.687 x + F(x))")) << deep.out << deep.err;
  const TempFolder folder;
  write_file(folder / "r.toml", "kind = \"decoder\"\nlayers = 2\nplacement = \"sandwich\"\n");
  const auto own = run_plumb({"info", folder / "r.toml"});
  EXPECT_TRUE(says(own.out, "decoder layers 0 to 1: y = x + N(F(N(x)))")) << own.out << own.err;
  EXPECT_FALSE(says(own.out, "set:")) << own.out;
  write_file(folder / "r.toml", "kind = \"decoder\"\nlayers = 2\nnorm-inner = true\ngate = \"vector\"\n");
  const auto opened = run_plumb({"info", folder / "r.toml"});
  EXPECT_TRUE(says(opened.out, "a norm before each branch; set: norm-inner = true, gate = \"vector\""))
      << opened.out;
  const auto unknown = run_plumb({"info", "gpt2-124"});
  EXPECT_TRUE(is_one_line_error(unknown, 2)) << unknown.err;
  EXPECT_TRUE(says(unknown.err, "did you mean \"gpt2-124m\"")) << unknown.err;
}

TEST(Info, BadInputIsOneLine) {
  const TempFolder folder;
  Model::create(small(), 1).save(folder / "m");
  for (const auto& [arguments, reason] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{folder / "none"}, "none"},
           {{folder / "m", "--length", "33"}, "--length is 33, expected 1 to the model's 32"},
           {{folder / "m", "--length", "-1"}, "--length"},
       }) {
    std::vector<std::string> all{"info"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const auto result = run_plumb(all);
    EXPECT_TRUE(is_one_line_error(result, result.exit_code)) << result.err;
    EXPECT_NE(result.exit_code, 0);
    EXPECT_TRUE(says(result.err, reason)) << result.err;
  }
  write_file(folder / "m/model.safetensors", "short");
  const auto result = run_plumb({"info", folder / "m"});
  EXPECT_TRUE(is_one_line_error(result, 1)) << result.err;
  EXPECT_TRUE(says(result.err, "model.safetensors")) << result.err;
}

}  // namespace
}  // namespace plumb::test
