// Runs that are stopped or killed go on to the bit.
#include "base/file.h"
#include "model/transformer.h"
#include "plumb/signal.h"
#include "train/checkpoint.h"
#include "train/test_run.h"

namespace plumb {
namespace {

struct Case {
  ModelConfig config;
  TrainOptions options;
};

// Trains to the end in one go, and again with a stop after each of `stops`, each time with a new model.
void expect_same_bits(const TempFolder& folder, const Dataset& data, const Case& c,
                      const std::vector<int64_t>& stops) {
  Model straight = Model::create(c.config, 1);
  Trainer(straight, data, c.options, folder / "straight").run();
  std::vector<float> end;
  for (size_t i = 0; i <= stops.size(); ++i) {
    Model model = Model::create(c.config, 1);
    Trainer trainer(model, data, c.options, folder / "stopped");
    EXPECT_EQ(trainer.resume(), i == 0 ? 0 : stops[i - 1]);
    const auto stop = [&](const StepMetrics& m) {
      if (i < stops.size() && m.step == stops[i]) request_stop();
    };
    if (i < stops.size()) {
      EXPECT_NE(error_of(ErrorKind::interrupted, [&] { trainer.run({.step = stop}); }).find("--resume"),
                std::string::npos);
      forget_stop();
    } else {
      trainer.run();
      end = values_of(model);
    }
  }
  EXPECT_EQ(metrics_of(folder / "stopped"), metrics_of(folder / "straight"));
  EXPECT_EQ(end, values_of(straight));
  EXPECT_EQ(read_file(folder / "stopped/model/model.safetensors"),
            read_file(folder / "straight/model/model.safetensors"));
}

TEST_F(TrainerTest, B28ResumeIsBitForBitAtEveryKindOfPoint) {
  const Dataset data = small_text_data(folder);
  Case c{small_config(data), small_options()};
  c.config.dropout = c.config.attention_dropout = c.config.embedding_dropout = 0.1;
  c.options.accumulation = 2;
  expect_same_bits(
      folder, data, c,
      {1, 2, 3, 5, 8, 11});  // in warmup, at its end, at evaluation, at a checkpoint, last but one
}

TEST_F(TrainerTest, ResumeIsBitForBitForMuonInBf16WithExperts) {
  const Dataset data = small_text_data(folder);
  Case c{small_config(data), small_options()};
  c.config.layer.experts = 4;
  c.options.optimizer = OptimizerKind::muon;
  c.options.dtype = Precision::bf16;
  c.options.recompute = true;
  expect_same_bits(folder, data, c, {6});
}

TEST_F(TrainerTest, ResumeIsBitForBitForAnEncoderDecoderWithBatchNorm) {
  const Dataset data = Dataset::synthetic("reverse", {.examples = 16});
  Case c{small_config(data), small_options()};
  c.config.layer.norm = NormKind::batch_norm;
  c.options.optimizer = OptimizerKind::sgd;
  c.options.lr = 0.05;
  c.options.spike_window = 3;
  expect_same_bits(folder, data, c, {5});
}

TEST_F(TrainerTest, ResumeIsBitForBitUnderSigmaReparam) {
  const Dataset data = small_text_data(folder);
  Case c{small_config(data), small_options()};
  c.config.layer.reparam = Reparam::sigma;
  c.options.accumulation = 2;
  expect_same_bits(folder, data, c, {1, 6});
}

TEST_F(TrainerTest, ResumeIsBitForBitForNgptUnderMuon) {
  const Dataset data = small_text_data(folder);
  Case c{small_config(data), small_options()};
  c.config.layer.placement = Placement::ngpt;
  c.options.optimizer = OptimizerKind::muon;
  c.options.recompute = true;
  expect_same_bits(folder, data, c, {6});
}

// As after kill -9: files are there up to some moment, and the process is gone.
TEST_F(TrainerTest, ResumeWithoutAnyWarningIsBitForBit) {
  const Dataset data = small_text_data(folder);
  const Case c{small_config(data), small_options()};
  Model straight = Model::create(c.config, 1);
  Trainer(straight, data, c.options, folder / "straight").run();

  struct Killed {};
  Model first = Model::create(c.config, 1);
  {
    Trainer dying(first, data, c.options, folder / "killed");
    const auto die = [](const StepMetrics& m) {
      if (m.step == 7) throw Killed();
    };
    EXPECT_THROW(dying.run({.step = die}), Killed);
  }

  Model model = Model::create(c.config, 1);
  Trainer trainer(model, data, c.options, folder / "killed");
  EXPECT_EQ(trainer.resume(), 4);
  trainer.run();
  EXPECT_EQ(metrics_of(folder / "killed"), metrics_of(folder / "straight"));
  EXPECT_EQ(values_of(model), values_of(straight));
}

TEST_F(TrainerTest, ADamagedCheckpointIsPassedOverForTheOneBefore) {
  const Dataset data = small_text_data(folder);
  const Case c{small_config(data), small_options()};
  Model straight = Model::create(c.config, 1);
  Trainer(straight, data, c.options, folder / "run").run();
  const std::string newest = checkpoint_path(folder / "run/checkpoints", 12);
  ASSERT_EQ(checkpoint_steps(folder / "run/checkpoints"), (std::vector<int64_t>{8, 12}));
  std::filesystem::resize_file(newest, 5000);

  Model model = Model::create(c.config, 1);
  Trainer trainer(model, data, c.options, folder / "run");
  const std::string text = logged([&] { EXPECT_EQ(trainer.resume(), 8); });
  EXPECT_NE(text.find("step-00000012.safetensors"), std::string::npos) << text;
  trainer.run();
  EXPECT_EQ(values_of(model), values_of(straight));
}

TEST_F(TrainerTest, ARunGoesOnToMoreSteps) {
  const Dataset data = small_text_data(folder);
  Case c{small_config(data), small_options()};
  Model model = Model::create(c.config, 1);
  { Trainer(model, data, c.options, folder / "run").run(); }
  c.options.steps = 15;
  Trainer trainer(model, data, c.options, folder / "run");
  EXPECT_EQ(trainer.resume(), 12);
  EXPECT_EQ(trainer.run().step, 15);
  EXPECT_EQ(metrics_of(folder / "run").back().at("step"), 15);
}

}  // namespace
}  // namespace plumb
