// `plumb eval` on a model that was just trained.
#include <cmath>
#include <filesystem>

#include "model/safetensors.h"
#include "train_run.h"

namespace plumb::test {
namespace {

TEST_F(TrainCommand, EvalReadsAllOfATextAndDumpsLogits) {
  ASSERT_EQ(train({"--steps", "20", "--out", "run", "--lr", "0.01"}).exit_code, 0);
  const ProcessResult r = plumb({"eval", "run/model", "--text", "text.txt"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const auto j = nlohmann::json::parse(r.out);
  EXPECT_NEAR(std::exp(j.at("loss").get<double>()), j.at("perplexity").get<double>(), 1e-6);
  EXPECT_NEAR(j.at("bits_per_byte").get<double>(), j.at("loss").get<double>() / std::log(2), 0.01);
  EXPECT_GE(j.at("targets"), 12000) << "every byte but the first";
  EXPECT_LT(j.at("loss"), 4.5);
  // A batch of another size gives the same mean.
  const auto other =
      nlohmann::json::parse(plumb({"eval", "run/model", "--text", "text.txt", "--batch", "3"}).out);
  EXPECT_NEAR(other.at("loss").get<double>(), j.at("loss").get<double>(), 1e-5);
  EXPECT_EQ(other.at("targets"), j.at("targets"));

  ASSERT_EQ(plumb({"eval", "run/model", "--ids", "84,104,101", "--logits", "out.safetensors"}).exit_code, 0);
  const SafetensorsFile file(folder / "out.safetensors");
  const Tensor logits = file.tensor("logits", DType::f32);
  EXPECT_EQ(logits.shape(), Shape({1, 3, 259}));
  for (int64_t i = 0; i < logits.numel(); ++i) ASSERT_TRUE(std::isfinite(logits.f32()[i]));

  expect_error(plumb({"eval", "run/model"}), 2, {"--text, --task and --ids"});
  expect_error(plumb({"eval", "run/model", "--ids", "1"}), 2, {"--logits"});
  expect_error(plumb({"eval", "run/model", "--ids", "259", "--logits", "x"}), 1, {"259"});
  expect_error(plumb({"eval", "run/model", "--ids", "-1", "--logits", "x"}), 2, {"-1"});
  expect_error(plumb({"eval", "run/model", "--ids", "1", "--decoder-ids", "-7", "--logits", "x"}), 2,
               {"--decoder-ids: -7"});
  expect_error(plumb({"eval", "run/model", "--text", "text.txt", "--batch", "0"}), 2, {"--batch is 0"});
  for (const char* length : {"-1", "33", "99999999999"}) {
    expect_error(plumb({"eval", "run/model", "--text", "text.txt", "--length", length}), 2,
                 {std::string("--length is ") + length + ", expected 1 to the model's 32"});
  }
  expect_error(plumb({"eval", "nowhere", "--text", "text.txt"}), 1, {"nowhere"});
}

TEST_F(TrainCommand, EvalAsksATaskForUnseenExamples) {
  ASSERT_EQ(
      plumb({"train", "reverse", "--steps", "2", "--batch", "2", "--width", "16", "--out", "run"}).exit_code,
      0);
  const ProcessResult r = plumb({"eval", "run", "--task", "reverse", "--length", "16", "--examples", "40"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const auto j = nlohmann::json::parse(r.out);
  EXPECT_GE(j.at("targets"), 40 * 4) << "three symbols and the end";
  EXPECT_GE(j.at("exact"), 0);
  EXPECT_LT(j.at("exact"), 0.5) << "two steps do not teach it";
  // A run's recipe says the length, and a model folder alone does not.
  for (const char* model : {"run", "run/model"}) {
    const ProcessResult own = plumb({"eval", model, "--task", "reverse", "--examples", "40"});
    ASSERT_EQ(own.exit_code, 0) << own.err;
    const auto by_recipe = nlohmann::json::parse(own.out);
    EXPECT_EQ(by_recipe.at("length"), 16);
    EXPECT_EQ(by_recipe.at("loss"), j.at("loss"));
  }
  std::filesystem::copy(folder / "run/model", folder / "alone");
  expect_error(plumb({"eval", "alone", "--task", "reverse"}), 2, {"--task needs --length"});
  expect_error(plumb({"eval", "run", "--task", "revers", "--length", "16"}), 2, {"revers", "reverse"});
  expect_error(plumb({"eval", "run", "--task", "sort", "--length", "16", "--examples", "0"}), 2,
               {"0 examples"});
  expect_error(plumb({"eval", "run", "--text", "text.txt"}), 1, {"--task or --ids"});
}

}  // namespace
}  // namespace plumb::test
