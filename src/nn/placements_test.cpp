// Placements that carry more than where the norms stand: what they say by depth, and the inits bound to them.
#include <gtest/gtest.h>

#include <cmath>

#include "nn/stream_mixer.h"
#include "plumb/config.h"
#include "plumb/error.h"

namespace plumb {
namespace {

ModelConfig decoder(Placement p, int64_t layers) {
  ModelConfig c;
  c.vocab_size = 8;
  c.width = 64;
  c.decoder_layers = layers;
  c.layer.placement = p;
  return c;
}

std::string words(Placement p, SublayerPart part = SublayerPart::attention, int64_t layer = 0) {
  return sublayer_formula(decoder(p, 8), Side::decoder, layer, part).str();
}

TEST(Placements, InWords) {
  EXPECT_EQ(words(Placement::mix_ln, SublayerPart::attention, 1), "y = N(x + F(x))");
  EXPECT_EQ(words(Placement::mix_ln, SublayerPart::attention, 2), "y = x + F(N(x))");
  EXPECT_EQ(words(Placement::normformer), "y = x + N(F(N(x)))");
  EXPECT_EQ(words(Placement::normformer, SublayerPart::feed_forward), "y = x + F(N(x))");
  EXPECT_EQ(words(Placement::admin), "y = N(a * x + F(x))");
  EXPECT_EQ(words(Placement::fixup), "y = x + g N(F(N(x)))");
  EXPECT_EQ(words(Placement::t_fixup), "y = x + F(x)");
  EXPECT_EQ(words(Placement::resi_dual), "y = N(x + F(x)), r' = r + F(x)");
  EXPECT_EQ(words(Placement::ngpt), "y = N((1 - g) * x + g * N(F(x)))");
  EXPECT_EQ(words(Placement::hyper_connections), "y = H_res x + H_post F(N(H_pre x)), 4 streams");
  ModelConfig c = decoder(Placement::sandwich, 8);
  c.layer.mixing = Mixing::doubly_stochastic;
  c.layer.streams = 2;
  c.layer.gate_value = 0.5;
  EXPECT_EQ(sublayer_formula(c, Side::decoder, 0).str(),
            "y = H_res x + H_post 0.5 N(F(N(H_pre x))), 2 streams");
}

TEST(Placements, NormFormerHasAnInnerNormInTheFeedForwardAlone) {
  const ModelConfig c = decoder(Placement::normformer, 4);
  const SublayerFormula attention = sublayer_formula(c, Side::decoder, 0),
                        ffn = sublayer_formula(c, Side::decoder, 0, SublayerPart::feed_forward);
  EXPECT_TRUE(attention.head_scale && attention.norm_branch && !attention.norm_inner);
  EXPECT_TRUE(!ffn.head_scale && !ffn.norm_branch && ffn.norm_inner);
}

// L = 2 branches a layer: L^(-1/2) on the first matrices of a branch, 0 on its last (1901.09321).
TEST(Placements, FixupInits) {
  const ModelConfig c = decoder(Placement::fixup, 8);
  const SublayerFormula f = sublayer_formula(c, Side::decoder, 0);
  EXPECT_DOUBLE_EQ(f.beta, 0.25);
  EXPECT_EQ(f.output_gain, 0);
  EXPECT_EQ(f.gate_value, 1);
  EXPECT_EQ(head_std(c), 0);
  EXPECT_EQ(resolved_layer(c, Side::decoder, 0).norm, NormKind::shift);
  EXPECT_FALSE(has_final_norm(c, Side::decoder));
}

// (9 M)^(-1/4) in a decoder, 0.67 N^(-1/4) in an encoder; embeddings C^(-1/2) and (9 L)^(-1/4).
TEST(Placements, TFixupInits) {
  ModelConfig c = decoder(Placement::t_fixup, 9);
  EXPECT_DOUBLE_EQ(sublayer_formula(c, Side::decoder, 0).beta, 1.0 / 3);
  EXPECT_DOUBLE_EQ(embedding_std(c, Side::decoder), 1.0 / 24);
  c.encoder_layers = 16;
  EXPECT_DOUBLE_EQ(sublayer_formula(c, Side::encoder, 0).beta, 0.335);
  EXPECT_FALSE(has_final_norm(c, Side::decoder));
}

// 2505.01618, table 1, at four times the base's depth and twice its width; depth-muP at alpha = 1/2.
TEST(Placements, CompleteP) {
  ModelConfig c = decoder(Placement::pre_norm, 8);
  c.base_layers = 2;
  c.base_width = 32;
  EXPECT_EQ(sublayer_formula(c, Side::decoder, 0).gate_value, 0.25);
  EXPECT_EQ(scales_of(c, Side::decoder, true), (ParameterScales{0.5, 2, 0.125}));
  EXPECT_EQ(scales_of(c, Side::decoder, false), (ParameterScales{1, 1, 0.125}));
  c.depth_alpha = 0.5;
  EXPECT_EQ(sublayer_formula(c, Side::decoder, 0).gate_value, 0.5);
  EXPECT_EQ(scales_of(c, Side::decoder, true), (ParameterScales{0.25, 2, 0.25}));
  EXPECT_EQ(scales_of(decoder(Placement::pre_norm, 8), Side::decoder, true), ParameterScales{});
}

TEST(Placements, ASecondStreamRunsThroughAllLayers) {
  ModelConfig c = decoder(Placement::resi_dual, 4);
  LayerRun run{.first = 2, .count = 1, .layer = c.layer};
  run.layer.placement = Placement::pre_norm;
  c.decoder_runs = {run};
  EXPECT_TRUE(has_final_norm(decoder(Placement::resi_dual, 4), Side::decoder));
  EXPECT_NE(sublayer_formula(c, Side::decoder, 2).dual, sublayer_formula(c, Side::decoder, 0).dual);
}

// 2410.01131: logits times sqrt(D), unit norms of queries and keys, no final norm.
TEST(Placements, NgptIsUnitThroughout) {
  const ModelConfig c = decoder(Placement::ngpt, 4);
  const LayerConfig l = resolved_layer(c, Side::decoder, 1);
  EXPECT_EQ(l.norm, NormKind::scale_norm);
  EXPECT_FALSE(l.norm_affine);
  EXPECT_EQ(l.qk_norm, QkNorm::per_head);
  EXPECT_EQ(l.attention_scale, 4);
  EXPECT_EQ(sublayer_formula(c, Side::decoder, 1).gate_value, 0.05);
  EXPECT_FALSE(has_final_norm(c, Side::decoder));
}

TEST(Placements, SigmaReparamInWords) {
  ModelConfig c = decoder(Placement::post_norm, 2);
  c.layer.reparam = Reparam::sigma;
  EXPECT_EQ(sublayer_formula(c, Side::decoder, 0).str(),
            "y = N(x + F(x)), each W of F as gamma W / sigma(W)");
}

// What maps start from, and that of them only the dynamic part's matrix decays (2409.19606).
TEST(Placements, MapsBetweenStreams) {
  for (const Placement p : {Placement::hyper_connections, Placement::mhc}) {
    const ModelConfig c = decoder(p, 4);
    for (int64_t order = 0; order < 9; ++order) {
      ParameterTable table;
      uint64_t sites = 0;
      const StreamMixer mixer(Builder{table, c, "maps", &sites}, c.layer,
                              sublayer_formula(c, Side::decoder, 0), order);
      table.initialize(1);
      const Parameter &base = *table.find("maps.base"), &theta = *table.find("maps.weight"),
                      &scale = *table.find("maps.scale");
      EXPECT_TRUE(theta.decays() && !base.decays() && !scale.decays());
      EXPECT_EQ(theta.shape, p == Placement::mhc ? (Shape{24, 256}) : (Shape{6, 64}));
      for (int64_t i = 0; i < theta.value.numel(); ++i) EXPECT_EQ(theta.value.f32()[i], 0);
      for (int i = 0; i < 3; ++i) EXPECT_EQ(scale.value.f32()[i], 0.01f);
      Context context;
      const ops::StreamMaps maps = mixer.maps(context, Tensor::zeros({1, 1, 4 * 64}));
      const float *pre = maps.pre.f32(), *res = maps.res.f32();
      EXPECT_NEAR(pre[0] + pre[1] + pre[2] + pre[3], 1, 1e-6);
      for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(maps.post.f32()[i], 1);
        EXPECT_NEAR(pre[i], p == Placement::mhc ? (i == order % 4 ? 0.75 : 1.0 / 12) : i == order % 4, 1e-6);
        for (int j = 0; j < 4; ++j) EXPECT_NEAR(res[4 * i + j], i == j, p == Placement::mhc ? 0.01 : 0);
      }
    }
  }
}

// FixNorm: each token's vector has length 1, in both storage orders of a matrix likewise.
TEST(Placements, UnitVectors) {
  for (const bool in_out : {false, true}) {
    for (const UnitLength unit : {UnitLength::of_outputs, UnitLength::of_inputs}) {
      ParameterTable table;
      const Shape shape = in_out ? Shape{3, 5} : Shape{5, 3};  // 3 inputs, 5 outputs
      table.add({.name = "w", .shape = shape, .in_out = in_out, .init = {{5, 1.0}}, .unit = unit});
      table.initialize(1);
      const Parameter& p = *table.find("w");
      EXPECT_FALSE(p.decays());
      const bool outputs = unit == UnitLength::of_outputs;
      for (int64_t i = 0; i < (outputs ? 5 : 3); ++i) {
        double sum = 0;
        for (int64_t k = 0; k < (outputs ? 3 : 5); ++k) {
          const int64_t o = outputs ? i : k, in = outputs ? k : i;
          sum += std::pow(p.value.f32()[in_out ? in * 5 + o : o * 3 + in], 2);
        }
        EXPECT_NEAR(sum, 1, 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace plumb
