// Runs of small models: they learn, stop and go on to the bit, skip what is not finite, and name what is not
// reached.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "model/transformer.h"
#include "plumb/signal.h"
#include "tensor/memory.h"
#include "train/checkpoint.h"
#include "train/test_run.h"

namespace plumb {
namespace {

class TrainerTest : public ::testing::Test {
 protected:
  TrainerTest() { set_log_level(LogLevel::silent); }
  ~TrainerTest() override { forget_stop(); }
  Folder folder;
};

// The lines of metrics.jsonl without what depends on the clock.
std::vector<Json> metrics_of(const std::string& run) {
  std::ifstream in(run + "/metrics.jsonl");
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(Json::parse(line));
    lines.back().erase("seconds");
  }
  return lines;
}

std::vector<float> values_of(const Model& model) {
  std::vector<float> all;
  for (const auto& p : model.transformer().parameters().all()) {
    all.insert(all.end(), p->value.f32(), p->value.f32() + p->value.numel());
  }
  return all;
}

// Learning.

TEST_F(TrainerTest, ADecoderLearnsText) {
  const Dataset data = small_text_data(folder);
  Model model = Model::create(small_config(data), 1);
  const TrainResult r =
      Trainer(model, data, {.steps = 80, .batch = 8, .length = 32, .lr = 5e-3, .eval_every = 40},
              folder / "run")
          .run();
  EXPECT_EQ(r.step, 80);
  EXPECT_EQ(r.skipped, 0);
  ASSERT_TRUE(r.best_validation.has_value());
  EXPECT_LT(*r.best_validation, 1.5) << "2.9 is what letter frequencies alone give";
  const Model best = Model::load(folder / "run/model");
  const Evaluation e = evaluate(best, data, {.batch = 16, .length = 32, .batches = 20});
  EXPECT_NEAR(e.loss, *r.best_validation, 1e-4);
  ASSERT_TRUE(e.bits_per_byte.has_value());
  EXPECT_NEAR(*e.bits_per_byte, e.loss / std::log(2.0), 0.02) << "one token is one byte, or ends a document";
  EXPECT_GT(e.accuracy, 0.5);
  EXPECT_EQ(Tokenizer::load(folder / "run/model").fingerprint(), data.tokenizer().fingerprint());
}

TEST_F(TrainerTest, AnEncoderLearnsMaskedText) {
  const Dataset data = small_text_data(folder, true);
  Model model = Model::create(small_config(data), 1);
  const TrainResult r =
      Trainer(model, data, {.steps = 120, .batch = 16, .length = 32, .lr = 5e-3, .eval_every = 60},
              folder / "run")
          .run();
  EXPECT_LT(r.best_validation.value_or(99), 2.6);
  EXPECT_FALSE(evaluate(model, data, {.length = 32}).bits_per_byte.has_value());
}

TEST_F(TrainerTest, AnEncoderDecoderLearnsToCopy) {
  const Dataset data = Dataset::synthetic("copy", {.examples = 64});
  ModelConfig config = small_config(data);
  config.width = 64;
  Model model = Model::create(config, 1);
  const TrainResult r =
      Trainer(model, data,
              {.steps = 300, .batch = 32, .length = 8, .lr = 4e-3, .warmup = 20, .eval_every = 0},
              folder / "run")
          .run();
  const Evaluation e = evaluate(model, data, {.split = Split::test, .batch = 64, .length = 8});
  ASSERT_TRUE(e.exact.has_value());
  EXPECT_GT(*e.exact, 0.8) << "loss " << e.loss;
  EXPECT_GE(e.accuracy, *e.exact);
  EXPECT_EQ(r.step, 300);
}

TEST_F(TrainerTest, EveryOptimizerAndPrecisionLearns) {
  const Dataset data = small_text_data(folder);
  TrainOptions base{.steps = 30, .batch = 8, .length = 32, .lr = 5e-3};
  std::vector<TrainOptions> all(4, base);
  all[1].optimizer = OptimizerKind::muon;
  all[2].optimizer = OptimizerKind::sgd;
  all[2].lr = 0.3;
  all[2].momentum = 0.9;
  all[3].dtype = Precision::bf16;
  for (size_t i = 0; i < all.size(); ++i) {
    Model model = Model::create(small_config(data), 1);
    std::vector<double> losses;
    Trainer(model, data, all[i], folder / std::to_string(i)).run({.step = [&](const StepMetrics& m) {
      losses.push_back(m.loss);
    }});
    EXPECT_LT(losses.back(), losses.front() - 1.5) << i;
  }
}

// Stop and resume.

struct Case {
  ModelConfig config;
  TrainOptions options;
};

// Trains to the end in one go, and again with a stop after each of `stops`, each time with a new model.
void expect_same_bits(const Folder& folder, const Dataset& data, const Case& c,
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

// Refusals.

TEST_F(TrainerTest, AFolderThatHoldsARunOrIsInUseIsRefused) {
  const Dataset data = small_text_data(folder);
  Model model = Model::create(small_config(data), 1);
  {
    Trainer first(model, data, small_options(), folder / "run");
    EXPECT_NE(error_of(ErrorKind::usage, [&] { Trainer(model, data, small_options(), folder / "run"); })
                  .find("in use"),
              std::string::npos);
    EXPECT_FALSE(Trainer::holds_run(folder / "run"));
    first.run();
  }
  EXPECT_TRUE(Trainer::holds_run(folder / "run"));
  const std::string before = read_file(folder / "run/metrics.jsonl");
  Trainer again(model, data, small_options(), folder / "run");
  EXPECT_NE(error_of(ErrorKind::usage, [&] { again.run(); }).find("already holds a run"), std::string::npos);
  EXPECT_EQ(read_file(folder / "run/metrics.jsonl"), before);
}

TEST_F(TrainerTest, ModelAndDataThatDoNotFitAreRefused) {
  const Dataset text = small_text_data(folder), task = Dataset::synthetic("copy");
  Model decoder = Model::create(small_config(text), 1);
  const auto refusal = [&](ErrorKind kind, Model& model, const Dataset& data, const TrainOptions& options) {
    return error_of(kind, [&] { Trainer(model, data, options, folder / "run"); });
  };
  EXPECT_NE(refusal(ErrorKind::config, decoder, task, small_options()).find("an encoder-decoder"),
            std::string::npos);
  EXPECT_NE(refusal(ErrorKind::usage, decoder, text, {.length = 65}).find("--length is 65"),
            std::string::npos);
  ModelConfig few = small_config(text);
  few.vocab_size = 100;
  few.pad_id = -1;
  Model narrow = Model::create(few, 1);
  EXPECT_NE(refusal(ErrorKind::config, narrow, text, small_options()).find("vocabulary of 100"),
            std::string::npos);
  TrainOptions frozen = small_options();
  frozen.freeze = {"decoder.0.attentoin"};
  EXPECT_NE(refusal(ErrorKind::usage, decoder, text, frozen).find("--freeze decoder.0.attentoin"),
            std::string::npos);
}

// Guard.

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

// Coverage.

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

// Data without targets, without validation.

TEST_F(TrainerTest, WithoutHeldOutTextTheLastModelIsKept) {
  std::ofstream(folder / "text.txt") << small_text();
  const Dataset data = Dataset::text(folder / "text.txt", Tokenizer::bytes(),
                                     {.held_out = 0, .cache_folder = folder / "cache"});
  Model model = Model::create(small_config(data), 1);
  const TrainResult r = Trainer(model, data, small_options(), folder / "run").run();
  EXPECT_FALSE(r.best_validation.has_value());
  EXPECT_EQ(r.best_step, 12);
  EXPECT_EQ(Model::load(folder / "run/model").parameter_count(), model.parameter_count());
  EXPECT_NE(error_of(ErrorKind::input, [&] { evaluate(model, data, {.length = 16}); }).find("--held-out"),
            std::string::npos);
}

TEST_F(TrainerTest, AnUnwritableFolderIsNamed) {
  const Dataset data = small_text_data(folder);
  Model model = Model::create(small_config(data), 1);
  std::ofstream(folder / "file") << "x";
  EXPECT_NE(error_of(ErrorKind::file, [&] { Trainer(model, data, small_options(), folder / "file/run"); })
                .find("/file"),
            std::string::npos);
}

// Memory.

TEST_F(TrainerTest, AfterTheFirstStepNothingIsAskedOfTheSystem) {
  const Dataset data = small_text_data(folder);
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::muon}) {
    Model model = Model::create(small_config(data), 1);
    TrainOptions options = small_options();
    options.optimizer = kind;
    options.accumulation = 2;
    options.eval_every = 0;
    std::vector<size_t> held;
    Trainer trainer(model, data, options, folder / enum_name(kind));
    trainer.run({.step = [&](const StepMetrics&) { held.push_back(held_memory()); }});
    EXPECT_EQ(held.front(), held.back()) << enum_name(kind);
  }
}

// Watching.

struct Recorder : RunObserver {
  bool wants(int64_t step) override { return step == 2; }
  void forward(const Site&, const Tensor&) override { ++forwards; }
  void backward(const Site&, const Tensor&, const Tensor&) override { ++backwards; }
  void gradients(int64_t step, const ParameterTable&, double clip) override {
    steps.push_back(step);
    scale = clip;
  }
  void updates(int64_t step, const std::vector<ParameterUpdate>& all) override {
    steps.push_back(step);
    updated = all.size();
  }
  void finish(int64_t step, double l, double rate) override {
    steps.push_back(step);
    loss = l;
    lr = rate;
  }
  std::vector<int64_t> steps;
  int64_t forwards = 0, backwards = 0;
  size_t updated = 0;
  double scale = 0, loss = 0, lr = 0;
};

TEST_F(TrainerTest, AnObserverSeesTheStepsItWants) {
  const Dataset data = small_text_data(folder);
  Model model = Model::create(small_config(data), 1);
  TrainOptions options = small_options();
  options.accumulation = 2;
  Recorder recorder;
  Trainer trainer(model, data, options, folder / "run");
  trainer.watch(&recorder);
  double loss = 0;
  trainer.run({.step = [&](const StepMetrics& m) {
    if (m.step == 2) loss = m.loss;
  }});
  EXPECT_EQ(recorder.steps, (std::vector<int64_t>{2, 2, 2}));
  EXPECT_GT(recorder.forwards, 0);
  EXPECT_GT(recorder.backwards, 0);
  EXPECT_EQ(recorder.updated, model.transformer().parameters().all().size());
  EXPECT_GT(recorder.scale, 0);
  EXPECT_EQ(recorder.loss, loss);
  EXPECT_EQ(recorder.lr, options.lr * schedule_factor(options, 2));
}

}  // namespace
}  // namespace plumb
