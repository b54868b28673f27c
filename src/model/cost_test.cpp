#include "model/cost.h"

#include <gtest/gtest.h>

#include <tuple>

#include "model/small_model.h"
#include "model/transformer.h"
#include "plumb/config_fields.h"
#include "tensor/memory.h"

namespace plumb {
namespace {

TEST(Cost, FlopsOfTheGpt2Shape) {
  ModelConfig c = family_default("gpt2");
  c.vocab_size = 50257;
  c.width = 768;
  c.layer.heads = 12;
  c.decoder_layers = 12;
  const ModelCost cost = model_cost(c, 512);
  EXPECT_EQ(cost.parameters, 124439808);
  EXPECT_EQ(cost.multiplied, 124439808 - 1024 * 768);
  EXPECT_EQ(cost.training_flops_per_token, 6.0 * (124439808 - 1024 * 768) + 12.0 * 12 * 768 * 512);
  EXPECT_EQ(cost.head_flops_per_token, 2.0 * 50257 * 768);
  EXPECT_EQ(cost.cache_bytes_per_token, 12 * 2 * 768 * 4);
}

TEST(Cost, OnlyChosenExpertsAndWindowsCount) {
  ModelConfig c = small("plumbline");
  c.layer.experts = 4;
  c.layer.experts_per_token = 2;
  const ModelCost sparse = model_cost(c, 8);
  c.layer.experts = 2;
  const ModelCost dense = model_cost(c, 8);
  EXPECT_EQ(sparse.multiplied - dense.multiplied, 2 * 2 * 8) << "the router has two rows more in each layer";
  c.layer.window = 4;
  EXPECT_EQ(dense.flops_per_token - model_cost(c, 8).flops_per_token, 4.0 * 2 * 8 * 4);
}

// 6 rows of theta read each of 4 streams alone, or 24 of them all 4 at once; the maps are 4 + 16 + 4 products
// a column.
TEST(Cost, MapsBetweenStreams) {
  ModelConfig c = small("plumbline");
  const ModelCost one = model_cost(c, 8);
  for (const auto& [placement, theta, applied] :
       {std::tuple{Placement::hyper_connections, 6 * 8, 4}, {Placement::mhc, 24 * 32, 1}}) {
    c.layer.placement = placement;
    const ModelCost several = model_cost(c, 8);
    EXPECT_EQ(several.parameters - one.parameters, 4 * (theta + 24 + 3));
    EXPECT_EQ(several.multiplied - one.multiplied, 4 * (theta * applied + 24 + 3));
    EXPECT_EQ(several.flops_per_token - one.flops_per_token,
              4.0 * 2 * (theta * applied + 24 + 3) + 4.0 * 2 * 8 * (4 + 16 + 4));
  }
}

// The estimate of what a forward pass keeps, against what it keeps.
TEST(Cost, ActivationsAreAsMeasured) {
  for (const Placement placement : {Placement::pre_norm, Placement::post_norm, Placement::sandwich,
                                    Placement::hyper_connections, Placement::mhc}) {
    for (const bool gated : {false, true}) {
      ModelConfig c = small("plumbline");
      c.width = 64;
      c.max_length = 256;
      c.layer.placement = placement;
      c.layer.gated = gated;
      c.decoder_layers = 6;
      const Model model = Model::create(c, 1);
      const Tokens tokens{.ids = Tensor::zeros({2, 256}, DType::i32)};
      Tape tape;
      Context context{.tape = &tape};
      release_cached_memory();
      const size_t before = live_memory();
      const Tensor hidden = model.transformer().decode(context, tokens);
      const double kept = static_cast<double>(live_memory() - before) / (2 * 256);
      EXPECT_NEAR(static_cast<double>(model_cost(c, 256).activation_bytes_per_token) / kept, 1, 0.15)
          << enum_name(placement) << (gated ? " gated" : "");
    }
  }
}

}  // namespace
}  // namespace plumb
