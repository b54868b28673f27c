#include "train/guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "model/safetensors.h"
#include "model/transformer.h"
#include "train/checkpoint.h"
#include "train/test_run.h"

namespace plumb {
namespace {

TEST(Guard, WhatIsNotFiniteIsSkippedAndCounted) {
  Guard guard({.spike_window = 0});
  EXPECT_FALSE(guard.judge(1, 1).skip);
  EXPECT_TRUE(guard.judge(NAN, 1).skip);
  EXPECT_TRUE(guard.judge(1, INFINITY).skip);
  EXPECT_EQ(guard.state().skips_in_row, 2);
  EXPECT_FALSE(guard.judge(1, 1).skip);
  EXPECT_EQ(guard.state().skips_in_row, 0);
  EXPECT_EQ(guard.state().skipped, 2);
  EXPECT_EQ(guard.state().spikes, 0);
}

// Losses 2.1, 1.9, 2.1, 1.9: mean 2, standard deviation 0.11547.
TEST(Guard, ASpikeStandsSoManyDeviationsAboveTheWindow) {
  for (const SpikeAction action : {SpikeAction::log, SpikeAction::skip}) {
    const TrainOptions o{.spike_window = 4, .spike_z = 3, .spike = action};
    Guard guard(o);
    EXPECT_FALSE(guard.judge(100, 1).spike) << "no window yet";
    for (const double loss : {2.1, 1.9, 2.1, 1.9}) EXPECT_FALSE(guard.judge(loss, 1).spike);
    Guard below = guard;
    EXPECT_FALSE(below.judge(2.34, 1).spike);
    EXPECT_FALSE(Guard(guard).judge(1.0, 1).spike) << "a fall is none";
    const Verdict v = guard.judge(2.36, 1);
    EXPECT_TRUE(v.spike);
    EXPECT_NEAR(v.z, 0.36 / 0.11547, 1e-3);
    EXPECT_EQ(v.skip, action == SpikeAction::skip);
    EXPECT_EQ(guard.state().spikes, 1);
    EXPECT_EQ(guard.state().window.size(), 4u);
    EXPECT_EQ(guard.state().window.back(), action == SpikeAction::skip ? 1.9 : 2.36);
  }
}

TEST(Guard, AFlatLossMakesNoSpikeOfASmallStep) {
  Guard guard({.spike_window = 3, .spike_z = 6});
  for (int i = 0; i < 3; ++i) guard.judge(2, 1);
  EXPECT_FALSE(guard.judge(2.001, 1).spike);
  EXPECT_TRUE(guard.judge(2.1, 1).spike);
}

TEST(Guard, GoesOnFromItsState) {
  const TrainOptions o{.spike_window = 4};
  Guard straight(o), stopped(o);
  for (const double loss : {3.0, 2.5, 2.2, 2.0, 1.9}) straight.judge(loss, 1), stopped.judge(loss, 1);
  Guard resumed(o);
  resumed.restore(stopped.state());
  EXPECT_EQ(straight.judge(2.6, 1).z, resumed.judge(2.6, 1).z);
}

// In a run.

TEST_F(TrainerTest, StepsThatAreNotFiniteChangeNothingAndEndTheRunInTheEnd) {
  const Dataset data = small_text_data(folder);
  ModelConfig config = small_config(data);
  Model model = Model::create(config, 1);
  TrainOptions options = small_options();
  options.steps = 100;
  options.eval_every = 0;
  options.checkpoint_every = 2;
  options.most_skips = 3;
  Parameter* p = model.transformer().parameters().find("decoder.1.feed_forward.down.weight");
  ASSERT_NE(p, nullptr);
  std::vector<float> before;
  int64_t skipped = 0;
  Trainer trainer(model, data, options, folder / "run");
  const auto poison = [&](const StepMetrics& m) {
    skipped += m.skipped;
    if (m.step == 4) {
      p->value.f32()[5] = NAN;
      before = values_of(model);
    }
  };
  std::string why;
  const std::string text =
      logged([&] { why = error_of(ErrorKind::numeric, [&] { trainer.run({.step = poison}); }); });
  EXPECT_NE(why.find("3 steps in a row"), std::string::npos);
  EXPECT_NE(why.find("step-00000006.safetensors"), std::string::npos) << why;
  EXPECT_NE(text.find("warning: step 5: the loss is nan; its update was skipped"), std::string::npos) << text;
  EXPECT_EQ(skipped, 3);
  std::vector<float> after = values_of(model);
  ASSERT_EQ(after.size(), before.size());
  EXPECT_EQ(std::memcmp(after.data(), before.data(), after.size() * sizeof(float)), 0);
  EXPECT_EQ(metrics_of(folder / "run").back().dump(),
            Json::parse("{\"step\":7,\"loss\":null,\"nll\":null,\"lr\":" +
                        Json(options.lr * schedule_factor(options, 7)).dump() +
                        ",\"grad_norm\":null,\"tokens\":64,\"skipped\":true}")
                .dump());
}

// Fewer steps than most_skips, and none that left a model worth keeping.
TEST_F(TrainerTest, AShortRunWithoutAnyFiniteLossIsAnError) {
  const Dataset data = small_text_data(folder);
  Model model = Model::create(small_config(data), 1);
  TrainOptions options = small_options();
  options.steps = 3;
  options.lr = 1e30;
  options.warmup = 0;
  Trainer trainer(model, data, options, folder / "run");
  std::string why;
  logged([&] { why = error_of(ErrorKind::numeric, [&] { trainer.run(); }); });
  EXPECT_NE(why.find("2 steps in a row, up to step 3, had to be skipped"), std::string::npos) << why;
}

// The checkpoints of steps 4 and 6, between which every step was skipped.
TEST_F(TrainerTest, ASkippedStepLeavesTheOptimizerAsItWas) {
  const Dataset data = small_text_data(folder);
  Model model = Model::create(small_config(data), 1);
  TrainOptions options = small_options();
  options.steps = 6;
  options.eval_every = 0;
  options.checkpoint_every = 2;
  Parameter* p = model.transformer().parameters().find("decoder.1.feed_forward.down.weight");
  ASSERT_NE(p, nullptr);
  Trainer trainer(model, data, options, folder / "run");
  const auto poison = [&](const StepMetrics& m) {
    EXPECT_EQ(m.skipped, m.step > 4);
    if (m.step == 4) p->value.f32()[5] = NAN;
  };
  error_of(ErrorKind::numeric, [&] { trainer.run({.step = poison}); });
  const SafetensorsFile before(checkpoint_path(folder / "run/checkpoints", 4)),
      after(checkpoint_path(folder / "run/checkpoints", 6));
  size_t moments = 0;
  for (const SafetensorsFile::Entry& e : before.entries()) {
    if (!e.name.starts_with("m:") && !e.name.starts_with("v:")) continue;
    ++moments;
    const Tensor a = before.tensor(e), b = after.tensor(e.name, e.dtype);
    EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.numel() * sizeof(float)), 0) << e.name;
  }
  EXPECT_EQ(moments, 2 * model.transformer().parameters().all().size());
}

// Documents of one byte: a window of one token is the byte, or the end, which is never masked.
TEST_F(TrainerTest, B24AStepWithoutTargetsIsToldAndChangesNothing) {
  std::filesystem::create_directory(folder / "texts");
  for (int i = 0; i < 40; ++i) std::ofstream(folder / ("texts/" + std::to_string(100 + i))) << "a";
  const Dataset data = Dataset::masked_text(folder / "texts", Tokenizer::bytes(),
                                            {.held_out = 0, .cache_folder = folder / "cache"});
  Model model = Model::create(small_config(data), 1);
  TrainOptions options = small_options();
  options.batch = options.length = 1;
  options.eval_every = 0;
  std::vector<float> before;
  int64_t without = 0;
  const std::string text = logged([&] {
    Trainer(model, data, options, folder / "run").run({.step = [&](const StepMetrics& m) {
      const std::vector<float> after = values_of(model);
      EXPECT_EQ(m.skipped, m.targets == 0);
      if (m.targets == 0 && m.step > 1) {
        EXPECT_EQ(after, before) << m.step;
      }
      without += m.targets == 0;
      before = after;
    }});
  });
  EXPECT_GT(without, 0);
  EXPECT_LT(without, options.steps);
  EXPECT_NE(text.find("has no target in any batch: nothing was learnt from it"), std::string::npos) << text;
}

TEST_F(TrainerTest, ASkippedStepLeavesBatchStatisticsAsTheyWere) {
  const Dataset data = small_text_data(folder);
  ModelConfig config = small_config(data);
  config.layer.norm = NormKind::batch_norm;
  Model model = Model::create(config, 1);
  TrainOptions options = small_options();
  options.spike_window = 2;
  options.spike_z = 1e-9;  // every rise is a spike
  options.spike = SpikeAction::skip;
  options.most_skips = 1000;
  options.lr = 1e-6;
  std::vector<float> before;
  int64_t skipped = 0;
  Trainer(model, data, options, folder / "run").run({.step = [&](const StepMetrics& m) {
    const std::vector<float> after = values_of(model);
    if (m.skipped) {
      ++skipped;
      EXPECT_EQ(after, before) << m.step;
    } else {
      EXPECT_NE(after, before) << m.step;
    }
    before = after;
  }});
  EXPECT_GT(skipped, 0);
  EXPECT_LT(skipped, options.steps);
}

}  // namespace
}  // namespace plumb
