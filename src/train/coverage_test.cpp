// Parameters that the first step does not reach or move are named, with the reason.
#include "train/coverage.h"

#include <algorithm>

#include "model/transformer.h"
#include "plumb/config_fields.h"
#include "train/test_run.h"

namespace plumb {
namespace {

TEST_F(TrainerTest, AParameterThatTheBackwardPassNeverReachesStopsTheRun) {
  const Dataset data = small_text_data(folder);
  Model model = Model::create(small_config(data), 1);
  Parameter* orphan =
      model.transformer().parameters().add({.name = "decoder.orphan.weight", .shape = {2, 2}});
  orphan->value = Tensor::zeros({2, 2});
  orphan->value.set_requires_grad();
  TrainOptions options = small_options();
  const std::vector<float> before = values_of(model);
  const std::string why =
      error_of(ErrorKind::config, [&] { Trainer(model, data, options, folder / "a").run(); });
  EXPECT_NE(why.find("never reached decoder.orphan.weight"), std::string::npos) << why;
  EXPECT_NE(why.find("--allow-unreached"), std::string::npos);
  EXPECT_EQ(values_of(model), before);
  options.allow_unreached = true;
  EXPECT_EQ(Trainer(model, data, options, folder / "b").run().step, 12);
}

TEST_F(TrainerTest, ParametersThatDoNotMoveAreReportedOnceWithTheReason) {
  const Dataset data = small_text_data(folder);
  ModelConfig config = small_config(data);
  config.positions = Positions::learned;
  config.layer.attention_bias = true;
  config.layer.placement = Placement::re_zero;
  Model model = Model::create(config, 1);
  const std::string text = logged([&] { Trainer(model, data, small_options(), folder / "a").run(); });
  EXPECT_NE(text.find("behind a gate that starts at 0"), std::string::npos) << text;
  EXPECT_EQ(text.find("gate.", text.find("behind")), std::string::npos) << "the gates themselves move";

  config.layer.placement = Placement::pre_norm;
  Model biased = Model::create(config, 1);
  const std::string bias = logged([&] { Trainer(biased, data, small_options(), folder / "b").run(); });
  EXPECT_NE(bias.find("key.bias"), std::string::npos) << bias;
  EXPECT_EQ(std::count(bias.begin(), bias.end(), '\n'), 1) << bias;

  TrainOptions frozen = small_options();
  frozen.freeze = {"decoder.0."};
  config.layer.attention_bias = false;
  Model part = Model::create(config, 1);
  const std::vector<float> before = values_of(part);
  EXPECT_EQ(logged([&] { Trainer(part, data, frozen, folder / "c").run(); }), "");
  for (const auto& p : part.transformer().parameters().all()) {
    EXPECT_EQ(p->trainable, !p->name.starts_with("decoder.0.")) << p->name;
  }
}

TEST_F(TrainerTest, OfMapsBetweenStreamsOnlyTheScalesWait) {
  const Dataset data = small_text_data(folder);
  for (const Placement p : {Placement::hyper_connections, Placement::mhc}) {
    ModelConfig config = small_config(data);
    config.layer.placement = p;
    Model model = Model::create(config, 1);
    const std::string text =
        logged([&] { Trainer(model, data, small_options(), folder / enum_name(p)).run(); });
    EXPECT_NE(text.find("a map between streams that starts at 0"), std::string::npos) << text;
    EXPECT_NE(text.find("maps.scale and 1 more"), std::string::npos) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
    // After the first step they do move.
    for (const auto& q : model.transformer().parameters().all()) {
      EXPECT_TRUE(!q->name.ends_with("maps.scale") || q->value.f32()[1] != 0.01f) << q->name;
    }
  }
}

TEST_F(TrainerTest, TheKeysOfAFusedBiasAreNamedWhereNothingMovesThem) {
  const Dataset data = small_text_data(folder);
  ModelConfig config = small_config(data);
  config.positions = Positions::learned;
  config.layer.attention_bias = config.layer.qkv_fused = true;
  config.layer.heads = 4;
  config.layer.kv_heads = 2;
  Model fused = Model::create(config, 1);
  const std::string text = logged([&] { Trainer(fused, data, small_options(), folder / "a").run(); });
  EXPECT_NE(text.find("a key bias does): decoder.0.attention.qkv.bias (keys), "
                      "decoder.1.attention.qkv.bias (keys)\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;

  config.positions = Positions::rope;  // turns with the key's place: it has a gradient
  Model rotary = Model::create(config, 1);
  EXPECT_EQ(logged([&] { Trainer(rotary, data, small_options(), folder / "b").run(); }), "");
}

TEST_F(TrainerTest, ExpertsThatNoTokenChoseAreNamed) {
  const Dataset data = small_text_data(folder);
  ModelConfig config = small_config(data);
  config.layer.experts = 64;
  config.layer.experts_per_token = 1;
  Model model = Model::create(config, 1);
  TrainOptions options = small_options();
  options.batch = 1;
  const std::string text = logged([&] { Trainer(model, data, options, folder / "run").run(); });
  EXPECT_NE(text.find("no token chose this expert"), std::string::npos) << text;
}

}  // namespace
}  // namespace plumb
