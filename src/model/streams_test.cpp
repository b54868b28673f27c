// Models of several streams: what they are at the start, what is refused, and what files keep of them.
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "base/test_support.h"
#include "model/transformer.h"
#include "plumb/config_fields.h"
#include "plumb/error.h"
#include "plumb/model.h"

namespace plumb {
namespace {

ModelConfig config_of(Placement placement, int64_t encoder, int64_t decoder) {
  ModelConfig c;
  c.vocab_size = 23;
  c.width = 24;
  c.max_length = 16;
  c.encoder_layers = encoder;
  c.decoder_layers = decoder;
  c.layer.placement = placement;
  return c;
}

std::vector<float> logits_of(const Transformer& model, std::vector<Tensor>* hidden = nullptr) {
  const Tokens tokens{.ids = Tensor::of<int32_t>({2, 5}, {3, 1, 4, 1, 5, 9, 2, 6, 0, 0}),
                      .mask = Tensor::of<uint8_t>({2, 5}, {1, 1, 1, 1, 1, 1, 1, 1, 0, 0})};
  Context context;
  const ModelConfig& c = model.config();
  Tensor h;
  if (c.has_encoder()) h = model.encode(context, tokens, c.has_decoder() ? nullptr : hidden);
  if (c.has_decoder()) h = model.decode(context, tokens, h, c.has_encoder() ? tokens.mask : Tensor(), hidden);
  const Tensor y = model.logits(context, h);
  return {y.f32(), y.f32() + y.numel()};
}

void expect_same_function(const std::vector<float>& got, const std::vector<float>& want) {
  double largest = 0;
  for (const float w : want) largest = std::max(largest, std::abs(static_cast<double>(w)));
  ASSERT_GT(largest, 0.01);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5 * std::max(1.0, largest)) << i;
}

struct Kind {
  int64_t encoder, decoder;
};
constexpr Kind kKinds[] = {{0, 5}, {3, 0}, {2, 2}};

// Parameters start from their names and the seed, so what both have is the same.
TEST(MixedStreams, ArePreNormAtTheStart) {
  for (const Placement p : {Placement::hyper_connections, Placement::mhc}) {
    for (const Kind& kind : kKinds) {
      for (const bool final_norm : {false, true}) {
        ModelConfig c = config_of(Placement::pre_norm, kind.encoder, kind.decoder);
        c.final_norm = final_norm;
        Transformer one(c);
        one.parameters().initialize(5);
        c.layer.placement = p;
        Transformer several(c);
        several.parameters().initialize(5);
        std::vector<Tensor> of_one, of_several;
        const auto want = logits_of(one, &of_one), got = logits_of(several, &of_several);
        expect_same_function(got, want);
        ASSERT_EQ(of_one.size(), of_several.size());
        for (size_t i = 0; i < of_one.size(); ++i) {
          EXPECT_EQ(of_one[i].shape(), of_several[i].shape()) << "hidden states are the streams' mean";
        }
      }
    }
  }
}

// mHC is pre-norm for any H_res while the rows of H_pre sum to 1, H_post is 1 and the streams are equal,
// since rows of H_res sum to 1.
TEST(MixedStreams, EqualOnesStayEqualUnderAnyDoublyStochasticMap) {
  ModelConfig c = config_of(Placement::pre_norm, 0, 6);
  Transformer one(c);
  one.parameters().initialize(5);
  c.layer.placement = Placement::mhc;
  Transformer several(c);
  several.parameters().initialize(5);
  uint64_t stream = 0;
  for (const auto& p : several.parameters().all()) {
    if (!p->name.ends_with("maps.base")) continue;
    const RandomKey key{7, random_stream(++stream)};
    float* base = p->value.f32();
    double total = 0;
    std::vector<double> share(4);
    for (int i = 0; i < 4; ++i) total += share[i] = 0.2 + std::abs(random_normal(key, i));
    for (int i = 0; i < 4; ++i) base[i] = static_cast<float>(std::log(share[i] / (total - share[i])));
    for (int i = 8; i < 24; ++i) base[i] = static_cast<float>(2 * random_normal(key, i));
  }
  expect_same_function(logits_of(several), logits_of(one));
}

// A dynamic map answers to its token: with theta away from 0 the function is another one.
TEST(MixedStreams, ThetaIsUsed) {
  for (const Placement p : {Placement::hyper_connections, Placement::mhc}) {
    Transformer model(config_of(p, 0, 3));
    model.parameters().initialize(5);
    const auto before = logits_of(model);
    for (const auto& q : model.parameters().all()) {
      for (int64_t i = 0; q->name.ends_with("maps.scale") && i < 3; ++i) q->value.f32()[i] = 1;
      for (int64_t i = 0; q->name.ends_with("maps.weight") && i < q->value.numel(); ++i)
        q->value.f32()[i] = static_cast<float>(0.3 * std::sin(static_cast<double>(i)));
    }
    double moved = 0;
    const auto after = logits_of(model);
    for (size_t i = 0; i < after.size(); ++i) moved = std::max(moved, std::abs(double{after[i]} - before[i]));
    EXPECT_GT(moved, 1e-3) << enum_name(p);
  }
}

TEST(MixedStreams, SavedAndLoadedAreTheSame) {
  const TempFolder folder;
  for (const Placement p : {Placement::hyper_connections, Placement::mhc}) {
    ModelConfig c = config_of(p, 0, 2);
    c.layer.streams = 3;
    const Model model = Model::create(c, 3);
    for (const auto& q : model.transformer().parameters().all()) {
      for (int64_t i = 0; i < q->value.numel(); ++i)
        q->value.f32()[i] += static_cast<float>(0.1 * std::cos(static_cast<double>(i)));
    }
    model.save(folder / enum_name(p));
    const Model again = Model::load(folder / enum_name(p));
    EXPECT_EQ(again.config(), c);
    EXPECT_EQ(logits_of(again.transformer()), logits_of(model.transformer()));
    ModelConfig other = c;
    other.model_type = "gpt2";
    EXPECT_THROW(Model::create(other, 1), Error) << "a published family has no file for it";
  }
}

TEST(MixedStreams, WhatDoesNotGoWithThemIsRefused) {
  const auto refused = [](const std::string& word, const std::function<void(ModelConfig&)>& change) {
    ModelConfig c = config_of(Placement::mhc, 0, 4);
    change(c);
    try {
      validate(c);
      ADD_FAILURE() << "accepted: " << word;
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()).rfind(word, 0), 0u) << e.what();
    }
  };
  EXPECT_NO_THROW(validate(config_of(Placement::mhc, 2, 4)));
  refused("streams is 1", [](ModelConfig& c) { c.layer.streams = 1; });
  refused("streams is 9", [](ModelConfig& c) { c.layer.streams = 9; });
  refused("norm_out", [](ModelConfig& c) { c.layer.norm_out = true; });
  refused("dual", [](ModelConfig& c) { c.layer.dual = 1; });
  refused("alpha", [](ModelConfig& c) { c.layer.alpha = 0.5; });
  refused("alpha", [](ModelConfig& c) { c.layer.gate = GateKind::scalar; });
  refused("alpha", [](ModelConfig& c) { c.layer.shortcut = GateKind::vector; });
  refused("parallel", [](ModelConfig& c) { c.layer.parallel = Parallel::one_norm; });
  refused("streams is 3", [](ModelConfig& c) {  // without maps there is one stream
    c.layer.placement = Placement::pre_norm;
    c.layer.streams = 3;
  });
  refused("streams in layer 2 is 1", [](ModelConfig& c) {
    LayerRun run{.first = 2, .count = 1, .layer = c.layer};
    run.layer.placement = Placement::pre_norm;
    c.decoder_runs = {run};
  });
  refused("streams in layer 2 is 3", [](ModelConfig& c) {
    LayerRun run{.first = 2, .count = 1, .layer = c.layer};
    run.layer.streams = 3;
    c.decoder_runs = {run};
  });
}

}  // namespace
}  // namespace plumb
