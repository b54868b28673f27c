// Texts packed into one row give the loss and the gradients that they give in rows of their own.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "model/batch_pass.h"

namespace plumb {
namespace {

using Texts = std::vector<std::vector<int32_t>>;

// A text's ids are inputs but for the last, and targets from the second on (the third, of the first text).
Batch batch_of(const std::vector<Texts>& rows, int64_t length) {
  Batch b{.rows = static_cast<int64_t>(rows.size()), .length = length};
  b.ids.assign(b.rows * length, 0);
  b.mask.assign(b.rows * length, 0);
  b.starts.assign(b.rows * length, 0);
  b.targets.assign(b.rows * length, kIgnoreTarget);
  for (int64_t row = 0; row < b.rows; ++row) {
    int64_t at = 0;
    for (const auto& ids : rows[row]) {
      const int64_t begin = at;
      for (size_t t = 0; t + 1 < ids.size(); ++t, ++at) {
        const int64_t i = row * length + at;
        b.ids[i] = ids[t];
        b.mask[i] = 1;
        b.starts[i] = static_cast<int32_t>(begin);
        b.targets[i] = t == 0 && ids[0] == 1 ? kIgnoreTarget : ids[t + 1];
        b.target_count += b.targets[i] != kIgnoreTarget;
      }
    }
    for (int64_t i = at; i < length; ++i) b.starts[row * length + i] = static_cast<int32_t>(at);
  }
  return b;
}

struct Result {
  LossSums sums;
  std::vector<std::vector<float>> gradients;
};

Result result_of(const ModelConfig& config, const Batch& b, bool plain) {
  Transformer model(config);
  model.parameters().initialize(7);
  model.parameters().set_gradients();
  Tape tape;
  Context context{.tape = &tape, .training = true, .plain = plain};
  Result r;
  r.sums = batch_loss(context, model, b, {.scale = 1.0 / static_cast<double>(b.target_count)});
  tape.backward();
  for (const auto& p : model.parameters().all()) {
    const Tensor g = p->value.grad();
    if (g.defined()) r.gradients.emplace_back(g.f32(), g.f32() + g.numel());
  }
  return r;
}

void expect_equal(const std::function<void(ModelConfig&)>& change) {
  ModelConfig c;
  c.vocab_size = 11;
  c.width = 8;
  c.max_length = 16;
  c.decoder_layers = 2;
  c.layer.heads = 2;
  c.layer.ffn_width = 12;
  c.init_std = 0.4;
  c.init = Init::normal;
  change(c);
  const Texts texts = {{1, 5, 2, 7, 3}, {4, 4, 9}, {6, 8, 10, 2, 5, 3}, {3, 1}};
  const Batch packed = batch_of({{texts[0], texts[1], texts[2]}, {texts[3]}}, 13);
  Batch alone = batch_of({{texts[0]}, {texts[1]}, {texts[2]}, {texts[3]}}, 5);
  alone.starts.clear();
  for (const bool plain : {false, true}) {
    const Result a = result_of(c, packed, plain), b = result_of(c, alone, plain);
    EXPECT_EQ(a.sums.count, b.sums.count);
    EXPECT_NEAR(a.sums.nll, b.sums.nll, 1e-5 * b.sums.nll);
    ASSERT_EQ(a.gradients.size(), b.gradients.size());
    double size = 0, difference = 0;
    for (size_t i = 0; i < a.gradients.size(); ++i) {
      ASSERT_EQ(a.gradients[i].size(), b.gradients[i].size());
      for (size_t j = 0; j < a.gradients[i].size(); ++j) {
        size = std::max(size, std::abs(static_cast<double>(b.gradients[i][j])));
        difference =
            std::max(difference, std::abs(static_cast<double>(a.gradients[i][j]) - b.gradients[i][j]));
      }
    }
    EXPECT_GT(size, 0.01);
    EXPECT_LT(difference, 1e-5 * size);
  }
}

TEST(Packing, IsRowsOfTheirOwn) {
  for (const Positions p : {Positions::rope, Positions::learned, Positions::sinusoidal, Positions::alibi})
    expect_equal([&](ModelConfig& c) { c.positions = p; });
  expect_equal([](ModelConfig& c) { c.layer.window = 2; });
  expect_equal([](ModelConfig& c) { c.layer.kv_heads = 1, c.layer.qkv_fused = true; });
  expect_equal([](ModelConfig& c) {
    c.layer.head_dim = 9, c.layer.kv_rank = 10, c.layer.q_rank = 7, c.layer.rope_dim = 6,
    c.layer.value_dim = 5;
  });
}

}  // namespace
}  // namespace plumb
