// Runs of small models: they learn, refuse what does not fit, keep what they should, and can be watched.
#include "plumb/trainer.h"

#include <cmath>

#include "base/file.h"
#include "model/run_observer.h"
#include "tensor/memory.h"
#include "train/test_run.h"

namespace plumb {
namespace {

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

// Keeps the streams that the last sub-layer of a pass receives.
class LastStreams : public Observer {
 public:
  void forward(const Site&, const Tensor&) override {}
  void backward(const Site&, const Tensor&, const Tensor&) override {}
  void streams(const std::string&, const Tensor& x, const Tensor& res) override {
    x_ = x;
    n_ = res.width();
  }
  // RMS of the difference of two streams over the RMS of one.
  double spread(int64_t i, int64_t j) const {
    const int64_t width = x_.width() / n_;
    double difference = 0, size = 0;
    for (int64_t r = 0; r < x_.rows(); ++r) {
      for (int64_t c = 0; c < width; ++c) {
        const float a = x_.f32()[r * x_.width() + i * width + c],
                    b = x_.f32()[r * x_.width() + j * width + c];
        difference += (a - b) * (a - b);
        size += a * a;
      }
    }
    return std::sqrt(difference / size);
  }

 private:
  Tensor x_;
  int64_t n_ = 0;
};

// The start is pre-norm's, where all streams are equal; training makes each differ from each.
TEST_F(TrainerTest, StreamsThatBeginEqualLearnAndPart) {
  const Dataset data = small_text_data(folder);
  for (const Placement p : {Placement::hyper_connections, Placement::mhc}) {
    ModelConfig config = small_config(data);
    config.layer.placement = p;
    config.layer.streams = 3;
    Model model = Model::create(config, 1);
    const auto spread = [&](int64_t i, int64_t j) {
      LastStreams last;
      Context context{.observer = &last};
      model.transformer().decode(context, {.ids = Tensor::of<int32_t>({1, 6}, {97, 32, 99, 97, 116, 32})});
      return last.spread(i, j);
    };
    EXPECT_LT(spread(0, 1), 1e-6);
    const TrainResult r =
        Trainer(model, data, {.steps = 80, .batch = 8, .length = 32, .lr = 5e-3, .eval_every = 40},
                folder / enum_name(p))
            .run();
    EXPECT_EQ(r.skipped, 0);
    EXPECT_LT(*r.best_validation, 1.5) << enum_name(p) << ": 2.9 is what letter frequencies alone give";
    for (const auto& [i, j] : {std::pair{0, 1}, {0, 2}, {1, 2}})
      EXPECT_GT(spread(i, j), 1e-2) << enum_name(p);
  }
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

// The spectral norm that the kept vectors give stays near the true one, and gamma has moved.
TEST_F(TrainerTest, SigmaReparamLearnsAndItsVectorsFollow) {
  const Dataset data = small_text_data(folder);
  ModelConfig config = small_config(data);
  config.layer.reparam = Reparam::sigma;
  Model model = Model::create(config, 1);
  const Parameter& w = *model.transformer().parameters().find("decoder.1.feed_forward.up.weight");
  const float start = w.gamma->value.f32()[0];
  std::vector<double> losses;
  Trainer(model, data, {.steps = 40, .batch = 8, .length = 32, .lr = 5e-3}, folder / "run")
      .run({.step = [&](const StepMetrics& m) { losses.push_back(m.loss); }});
  EXPECT_LT(losses.back(), losses.front() - 1.5);
  EXPECT_NE(w.gamma->value.f32()[0], start);
  ops::SigmaReparam s = w.reparam();
  s.gamma = Tensor::of<float>({1}, {1});
  s.vectors = s.vectors.clone();
  const ops::LinearWeights map{.weight = w.value.without_grad(), .bias = {}, .in_out = false};
  Context context;
  const double kept = w.value.f32()[0] / ops::sigma_reparam(context, map, s).weight.f32()[0];
  ops::start(map, s);
  EXPECT_LE(kept, s.gamma.f32()[0] * (1 + 1e-5));
  EXPECT_GT(kept, 0.9 * s.gamma.f32()[0]) << "one iteration a step, while W becomes another: 0.948 here";
}

// Length of each row, or of each column, of (rows, width).
std::vector<double> lengths(const Tensor& t, bool of_columns) {
  std::vector<double> sums(of_columns ? t.width() : t.rows());
  for (int64_t i = 0; i < t.numel(); ++i)
    sums[of_columns ? i % t.width() : i / t.width()] += std::pow(static_cast<double>(t.f32()[i]), 2);
  for (double& s : sums) s = std::sqrt(s);
  return sums;
}

// nGPT learns without warm-up, and its matrices, its embeddings and its stream stay at length 1.
TEST_F(TrainerTest, NgptLearnsAtLengthOne) {
  const Dataset data = small_text_data(folder);
  for (const bool turned : {false, true}) {
    ModelConfig config = small_config(data);
    config.layer.placement = Placement::ngpt;
    config.tied_embeddings = config.linear_in_out = turned;
    Model model = Model::create(config, 1);
    std::vector<double> losses;
    Trainer(model, data, {.steps = 40, .batch = 8, .length = 32, .lr = 2e-2, .warmup = 0},
            folder / (turned ? "turned" : "run"))
        .run({.step = [&](const StepMetrics& m) { losses.push_back(m.loss); }});
    EXPECT_LT(losses.back(), losses.front() - 1.5);
    int64_t unit = 0;
    for (const auto& p : model.transformer().parameters().all()) {
      EXPECT_EQ(p->decays(), false) << p->name;
      if (p->unit == UnitLength::none) continue;
      ++unit;
      const bool columns = (p->unit == UnitLength::of_inputs) != p->in_out;
      for (const double l : lengths(p->value, columns)) EXPECT_NEAR(l, 1, 1e-6) << p->name;
    }
    EXPECT_EQ(unit, 2 * 7 + (turned ? 1 : 2)) << "seven maps a layer, the table, the head";
    Context context;
    Transformer::Hidden hidden;
    const Tensor ids = Tensor::of<int32_t>({1, 5}, {7, 1, 44, 3, 9});
    model.transformer().decode(context, {.ids = ids}, {}, {}, &hidden);
    EXPECT_EQ(hidden.size(), 3u);
    for (const Tensor& h : hidden) {
      for (const double l : lengths(h, false)) EXPECT_NEAR(l, 1, 1e-6);
    }
  }
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

// Without held-out text; memory; watching.

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
