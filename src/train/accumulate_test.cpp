// Gradients of a step however it is cut, and of batches with few targets or none: B22, B24.
#include <cmath>
#include <map>

#include "kernels/reduce.h"
#include "train/optimizer.h"
#include "train/pass.h"
#include "train/test_run.h"

namespace plumb {
namespace {

using Gradients = std::map<std::string, std::vector<float>>;

struct Result {
  StepSums sums;
  Gradients gradients;
};

Result gradients_of(const Model& model, const std::vector<Batch>& batches, const TrainOptions& options = {}) {
  ParameterTable& table = model.transformer().parameters();
  for (const auto& p : table.all()) p->value.clear_grad();
  Result r{.sums = accumulate(model.transformer(), batches, options, 1, nullptr)};
  for (const auto& p : table.all()) {
    const Tensor g = p->value.grad();
    if (g.defined()) r.gradients[p->name].assign(g.f32(), g.f32() + g.numel());
  }
  return r;
}

void expect_near(const Gradients& got, const Gradients& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, w] : want) {
    const std::vector<float>& g = got.at(name);
    double difference = 0, size = 0;
    for (size_t i = 0; i < w.size(); ++i) {
      difference += std::pow(g[i] - w[i], 2);
      size += std::pow(w[i], 2);
    }
    EXPECT_LE(std::sqrt(difference), 1e-5 * std::sqrt(size) + 1e-8) << name;  // f32 sums in another order
  }
}

std::vector<Batch> cut(const Dataset& data, int64_t micro_batches, int64_t rows, int64_t length) {
  std::vector<Batch> batches;
  for (int64_t m = 0; m < micro_batches; ++m) batches.push_back(data.batch(1, m, rows, length));
  return batches;
}

TEST(Accumulation, B22EveryCutOfARaggedStepGivesTheSameGradient) {
  const Dataset data = Dataset::synthetic("reverse");
  const Model model = Model::create(small_config(data), 1);
  const Result whole = gradients_of(model, cut(data, 1, 6, 14));
  EXPECT_FALSE(whole.gradients.empty());
  for (const auto& [micro, rows] : {std::pair{2, 3}, {3, 2}, {6, 1}}) {
    const std::vector<Batch> batches = cut(data, micro, rows, 14);
    const auto as_first = [&](const Batch& b) { return b.target_count == batches[0].target_count; };
    EXPECT_FALSE(std::all_of(batches.begin(), batches.end(), as_first)) << "the case is about unequal counts";
    const Result parts = gradients_of(model, batches);
    EXPECT_EQ(parts.sums.sums.count, whole.sums.sums.count);
    EXPECT_EQ(parts.sums.tokens, whole.sums.tokens);
    EXPECT_NEAR(parts.sums.sums.loss, whole.sums.sums.loss, 1e-4);
    expect_near(parts.gradients, whole.gradients);
  }
}

Batch without_targets(Batch b) {
  std::fill(b.targets.begin(), b.targets.end(), kIgnoreTarget);
  b.target_count = 0;
  return b;
}

TEST(Accumulation, B24ABatchWithoutTargetsChangesNothing) {
  const Dataset data = Dataset::synthetic("sort");
  const Model model = Model::create(small_config(data), 1);
  const std::vector<Batch> batches = cut(data, 2, 3, 14);
  const Result alone = gradients_of(model, {batches[0]});
  const Result both = gradients_of(model, {batches[0], without_targets(batches[1])});
  EXPECT_EQ(both.gradients, alone.gradients);
  EXPECT_EQ(both.sums.sums.loss, alone.sums.sums.loss);

  const Result none = gradients_of(model, {without_targets(batches[0])});
  EXPECT_EQ(none.sums.sums.count, 0);
  EXPECT_TRUE(none.gradients.empty());
}

// The pass itself, which the trainer leaves out where it can.
TEST(Accumulation, B24AllTargetsIgnoredGivesZeroGradientsAndNoNaN) {
  const Dataset data = Dataset::synthetic("sort");
  const Model model = Model::create(small_config(data), 1);
  const Batch b = without_targets(data.batch(1, 0, 3, 14));
  Tape tape;
  Context context{.tape = &tape, .training = true};
  const LossSums sums = batch_loss(context, model.transformer(), b, {.label_smoothing = 0.1, .z_loss = 0.1});
  tape.backward();
  EXPECT_EQ(sums.loss, 0);
  EXPECT_EQ(sums.count, 0);
  EXPECT_EQ(gradient_norm(model.transformer().parameters()), 0);
}

TEST(Accumulation, RecomputedAndPlainPassesGiveTheSameGradient) {
  const Dataset data = Dataset::synthetic("reverse");
  ModelConfig config = small_config(data);
  config.dropout = config.attention_dropout = config.embedding_dropout = 0.1;
  const Model model = Model::create(config, 1);
  const std::vector<Batch> batches = cut(data, 2, 3, 14);
  const Result fused = gradients_of(model, batches);
  EXPECT_EQ(gradients_of(model, batches, {.recompute = true}).gradients, fused.gradients);
  expect_near(gradients_of(model, batches, {.plain = true}).gradients, fused.gradients);
}

}  // namespace
}  // namespace plumb
