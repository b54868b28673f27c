// The formula on the working set of the public bug reports: x = [1, 2, 3, 4] with gains and biases that are
// not uniform.
#include "nn/sublayer.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plumb {
namespace {

struct Rig {
  ModelConfig config;
  ParameterTable table;
  uint64_t sites = 0;
  std::optional<Sublayer> sublayer;

  Rig(const std::function<void(LayerConfig&)>& change, const SublayerFormula& formula) {
    config.width = 4;
    config.layer.norm = NormKind::layer_norm;
    config.layer.norm_bias = true;
    change(config.layer);
    sublayer.emplace(Builder{table, config, "s", &sites}, config.layer, formula);
    table.initialize(1);
  }
  void set(const std::string& name, std::vector<float> values) {
    std::copy(values.begin(), values.end(), table.find(name)->value.f32());
  }
};

Tensor row(std::vector<float> v) {
  return Tensor::of<float>({1, 1, 4}, v);
}

std::vector<float> run(const Sublayer& s, const Tensor& x, const std::vector<float>& branch,
                       bool plain = false) {
  Context context{.plain = plain};
  Stream stream(x);
  s.forward(context, stream, [&](const Tensor&) { return row(branch); }, {});
  const Tensor y = stream.value(context);
  return {y.f32(), y.f32() + 4};
}

void expect_near(const std::vector<float>& got, const std::vector<double>& want) {
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 2e-6 * std::max(1.0, std::abs(want[i])));
}

const auto kAsIs = [](LayerConfig&) {};

// The second residual starts from the normed tensor: LN2(LN1(x)), not LN2(x).
TEST(Sublayer, B10PostNormStreamIsTheNormedTensor) {
  for (const bool plain : {false, true}) {
    Rig first(kAsIs, {.norm_out = true}), second(kAsIs, {.norm_out = true});
    first.set("s.norm_out.gain", {2, 1, 1, 0.5});
    first.set("s.norm_out.bias", {0.5, 0, 0, -0.5});
    Context context{.plain = plain};
    Stream stream(row({1, 2, 3, 4}));
    const auto zero = [](const Tensor&) { return row({0, 0, 0, 0}); };
    first.sublayer->forward(context, stream, zero, {});
    second.sublayer->forward(context, stream, zero, {});
    const Tensor y = stream.value(context);
    expect_near({y.f32(), y.f32() + 4}, {-1.642917, 0.054662, 0.929261, 0.658993});
  }
}

// Alpha is on the stream, not on the branch.
TEST(Sublayer, B15DeepNormAlphaOnTheStream) {
  Rig rig(kAsIs, {.norm_out = true, .alpha = 2});
  for (const bool plain : {false, true}) {
    expect_near(run(*rig.sublayer, row({1, 2, 3, 4}), {1, 0, 0, -1}, plain),
                {-1.264909, -0.632454, 0.632454, 1.264909});
  }
}

TEST(Sublayer, ReZeroIsTheIdentityAtInit) {
  Rig rig(kAsIs, {.gate = GateKind::scalar, .gate_value = 0});
  expect_near(run(*rig.sublayer, row({1, 2, 3, 4}), {5, 6, 7, 8}), {1, 2, 3, 4});
}

TEST(Sublayer, NoShortcutLeavesTheBranchAlone) {
  Rig rig(kAsIs, {.norm_in = true, .alpha = 0});
  expect_near(run(*rig.sublayer, row({NAN, 2, 3, 4}), {5, 6, 7, 8}), {5, 6, 7, 8});
}

// He 2016: a shortcut scaled by 0.9 leaves 0.9^L of the gradient, when the branches are zero.
TEST(Sublayer, GradientThroughScaledShortcuts) {
  constexpr int kLayers = 12;
  std::vector<std::unique_ptr<Rig>> rigs;
  for (int i = 0; i < kLayers; ++i)
    rigs.push_back(std::make_unique<Rig>(kAsIs, SublayerFormula{.alpha = 0.9}));
  Tape tape;
  Context context{.tape = &tape, .training = true};
  Tensor x = row({1, 2, 3, 4});
  x.set_requires_grad();
  Stream stream(x);
  for (const auto& rig : rigs) {
    rig->sublayer->forward(context, stream, [](const Tensor&) { return row({0, 0, 0, 0}); }, {});
  }
  const Tensor y = stream.value(context);
  seed_gradient(y, row({1, -1, 2, 0.5}));
  tape.backward();
  const float* g = x.grad().f32();
  const double seed[] = {1, -1, 2, 0.5};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(g[i], std::pow(0.9, kLayers) * seed[i], 1e-6);
}

// Sandwich is the peri-norm: the branch is normed before it joins, so its scale does not matter.
TEST(Sublayer, SandwichIgnoresTheBranchScale) {
  Rig rig(kAsIs, {.norm_in = true, .norm_branch = true});
  const auto small = run(*rig.sublayer, row({1, 2, 3, 4}), {1, -2, 0.5, 3});
  const auto large = run(*rig.sublayer, row({1, 2, 3, 4}), {100, -200, 50, 300});
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(small[i], large[i], 1e-5);
}

// B30: dropout is on the branch before the add. What it drops leaves the stream as it was.
TEST(Sublayer, B30DropoutIsOnTheBranch) {
  Rig rig(kAsIs, {});
  rig.config.dropout = 0.5;
  ParameterTable table;
  const Sublayer s(Builder{table, rig.config, "s", &rig.sites}, rig.config.layer, {});
  double mean = 0;
  int dropped = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Context context{.training = true, .random = {seed, 1}};
    Stream stream(row({10, 20, 30, 40}));
    s.forward(context, stream, [](const Tensor&) { return row({1, 1, 1, 1}); }, {});
    const Tensor y = stream.value(context);
    for (int i = 0; i < 4; ++i) {
      const float added = y.f32()[i] - 10.0f * static_cast<float>(i + 1);
      EXPECT_TRUE(added == 0 || added == 2) << added;
      dropped += added == 0;
      mean += added / 8000;
    }
  }
  EXPECT_NEAR(mean, 1, 0.05);
  EXPECT_NEAR(dropped / 8000.0, 0.5, 0.03);
  // In evaluation nothing is dropped.
  Context eval;
  Stream stream(row({10, 20, 30, 40}));
  s.forward(eval, stream, [](const Tensor&) { return row({1, 1, 1, 1}); }, {});
  EXPECT_EQ(stream.value(eval).f32()[0], 11);
}

}  // namespace
}  // namespace plumb
