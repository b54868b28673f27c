// The formula and the inits that a placement implies.
#include <gtest/gtest.h>

#include <cmath>

#include "nn/attention.h"
#include "nn/feed_forward.h"
#include "plumb/config.h"

namespace plumb {
namespace {

ModelConfig config_of(Placement p, int64_t encoder, int64_t decoder) {
  ModelConfig c;
  c.vocab_size = 8;
  c.width = 64;
  c.encoder_layers = encoder;
  c.decoder_layers = decoder;
  c.layer.placement = p;
  return c;
}

TEST(Formula, B15DeepNormScales) {
  const SublayerFormula one = sublayer_formula(config_of(Placement::deep_norm, 0, 12), Side::decoder, 0);
  EXPECT_NEAR(one.alpha, 2.213364, 1e-6);
  EXPECT_NEAR(one.beta, 0.319472, 1e-6);
  EXPECT_TRUE(one.norm_out && !one.norm_in && !one.norm_branch);
  const ModelConfig both = config_of(Placement::deep_norm, 12, 12);
  EXPECT_NEAR(sublayer_formula(both, Side::encoder, 3).alpha, 1.760878, 1e-6);
  EXPECT_NEAR(sublayer_formula(both, Side::encoder, 3).beta, 0.400198, 1e-6);
  EXPECT_NEAR(sublayer_formula(both, Side::decoder, 3).alpha, 2.449490, 1e-6);
  EXPECT_NEAR(sublayer_formula(both, Side::decoder, 3).beta, 0.288675, 1e-6);
}

// DeepNet's condition: 2N (2 beta^2 / alpha^2) = 1, and 3M (2 beta^2 / alpha^2) = 1 for the decoder of both.
TEST(Formula, DeepNormInvariants) {
  for (const int64_t n : {2, 6, 18, 100, 1000}) {
    const SublayerFormula e = sublayer_formula(config_of(Placement::deep_norm, n, 0), Side::encoder, 0);
    EXPECT_NEAR(2.0 * n * 2 * e.beta * e.beta / (e.alpha * e.alpha), 1, 1e-9);
    const SublayerFormula d = sublayer_formula(config_of(Placement::deep_norm, 6, n), Side::decoder, 0);
    EXPECT_NEAR(3.0 * n * 2 * d.beta * d.beta / (d.alpha * d.alpha), 1, 1e-9);
  }
}

TEST(Formula, InWords) {
  EXPECT_EQ(sublayer_formula(config_of(Placement::post_norm, 0, 2), Side::decoder, 0).str(),
            "y = N(x + F(x))");
  EXPECT_EQ(sublayer_formula(config_of(Placement::pre_norm, 0, 2), Side::decoder, 0).str(),
            "y = x + F(N(x))");
  EXPECT_EQ(sublayer_formula(config_of(Placement::deep_norm, 0, 8), Side::decoder, 0).str(),
            "y = N(2 x + F(x))");
  EXPECT_EQ(sublayer_formula(config_of(Placement::sandwich, 0, 2), Side::decoder, 0).str(),
            "y = x + N(F(N(x)))");
  EXPECT_EQ(sublayer_formula(config_of(Placement::reordered, 0, 2), Side::decoder, 0).str(),
            "y = x + N(F(x))");
  EXPECT_EQ(sublayer_formula(config_of(Placement::re_zero, 0, 2), Side::decoder, 0).str(), "y = x + g F(x)");
  EXPECT_EQ(sublayer_formula(config_of(Placement::layer_scale, 0, 2), Side::decoder, 0).str(),
            "y = x + g * F(N(x))");
  EXPECT_EQ(sublayer_formula(config_of(Placement::layer_norm_scaling, 0, 8), Side::decoder, 3).str(),
            "y = x + F(0.5 N(x))");
  EXPECT_EQ(sublayer_formula(config_of(Placement::plain, 0, 2), Side::decoder, 0).str(), "y = F(N(x))");
}

TEST(Formula, FieldsOpenOneByOne) {
  ModelConfig c = config_of(Placement::deep_norm, 0, 12);
  c.layer.norm_in = true;
  c.layer.alpha = 1.5;
  const SublayerFormula f = sublayer_formula(c, Side::decoder, 0);
  EXPECT_TRUE(f.norm_in && f.norm_out);
  EXPECT_EQ(f.alpha, 1.5);
  EXPECT_NEAR(f.beta, 0.319472, 1e-6);
}

TEST(Formula, FinalNormFollowsThePlacement) {
  EXPECT_TRUE(has_final_norm(config_of(Placement::pre_norm, 0, 2), Side::decoder));
  EXPECT_TRUE(has_final_norm(config_of(Placement::sandwich, 0, 2), Side::decoder));
  EXPECT_FALSE(has_final_norm(config_of(Placement::post_norm, 0, 2), Side::decoder));
  EXPECT_FALSE(has_final_norm(config_of(Placement::deep_norm, 0, 2), Side::decoder));
  EXPECT_FALSE(has_final_norm(config_of(Placement::re_zero, 0, 2), Side::decoder));
  ModelConfig c = config_of(Placement::post_norm, 0, 2);
  c.final_norm = true;  // a checkpoint that carries one
  EXPECT_TRUE(has_final_norm(c, Side::decoder));
}

double spread(const float* v, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(v[i]) * v[i];
  return std::sqrt(sum / static_cast<double>(n));
}

// B15, B16: Xavier is per matrix also where Q, K and V are one, and beta reaches V, the output and the
// feed-forward, not Q and K, fused or split, in both storage orders.
TEST(Init, B15B16DeepNormGainsByMatrix) {
  for (const bool fused : {false, true}) {
    for (const bool in_out : {false, true}) {
      ModelConfig c = config_of(Placement::deep_norm, 0, 12);
      c.width = 256;
      c.layer.qkv_fused = fused;
      c.layer.gated = false;
      c.linear_in_out = in_out;
      uint64_t site = 0;
      ParameterTable table;
      const SublayerFormula f = sublayer_formula(c, Side::decoder, 0);
      const LayerConfig l = resolved_layer(c, Side::decoder, 0);
      const Builder b{table, c, "layer", &site};
      MultiHeadAttention attention(b.child("attention"), l, f, MultiHeadAttention::Kind::self);
      FeedForward ffn(b.child("ffn"), l, f, l.ffn_width);
      table.initialize(5);
      const double square = std::sqrt(2.0 / 512), tall = std::sqrt(2.0 / (256 + 1024));
      const auto expect = [&](const Tensor& w, int64_t first, int64_t count, double want) {
        const int64_t width = w.size(1);
        std::vector<float> part;
        for (int64_t r = 0; r < w.size(0); ++r) {
          for (int64_t k = 0; k < width; ++k) {
            const int64_t out = in_out ? k : r;
            if (out >= first && out < first + count) part.push_back(w.f32()[r * width + k]);
          }
        }
        EXPECT_NEAR(spread(part.data(), static_cast<int64_t>(part.size())) / want, 1, 0.02);
      };
      if (fused) {
        const Tensor w = table.find("layer.attention.qkv.weight")->value;
        expect(w, 0, 256, square);
        expect(w, 256, 256, square);
        expect(w, 512, 256, square * f.beta);
      } else {
        expect(table.find("layer.attention.query.weight")->value, 0, 256, square);
        expect(table.find("layer.attention.key.weight")->value, 0, 256, square);
        expect(table.find("layer.attention.value.weight")->value, 0, 256, square * f.beta);
      }
      expect(table.find("layer.attention.output.weight")->value, 0, 256, square * f.beta);
      expect(table.find("layer.ffn.up.weight")->value, 0, 1024, tall * f.beta);
      expect(table.find("layer.ffn.down.weight")->value, 0, 256, tall * f.beta);
    }
  }
}

// GPT-2: output projections are drawn sqrt(2 L) smaller.
TEST(Init, ScaledNormal) {
  ModelConfig c = config_of(Placement::pre_norm, 0, 8);
  EXPECT_EQ(init_of(c), Init::scaled_normal);
  EXPECT_DOUBLE_EQ(output_scale(c), 0.25);
  EXPECT_EQ(output_scale(config_of(Placement::reordered, 0, 8)), 1);
}

TEST(Init, NamesNotOrderDecide) {
  ParameterTable a, b;
  a.add({.name = "x", .shape = {4, 4}, .init = {{4, 1.0}}});
  b.add({.name = "other", .shape = {2, 2}, .init = {{2, 1.0}}});
  b.add({.name = "x", .shape = {4, 4}, .init = {{4, 1.0}}});
  a.initialize(1);
  b.initialize(1);
  EXPECT_EQ(a.find("x")->value.f32()[7], b.find("x")->value.f32()[7]);
  EXPECT_NE(b.find("x")->value.f32()[0], b.find("other")->value.f32()[0]);
}

// B27: decided by role and rank, whatever the name.
TEST(Decay, B27MatricesAndTablesOnly) {
  EXPECT_TRUE((Parameter{.name = "w", .shape = {2, 2}, .role = Role::matrix}.decays()));
  EXPECT_TRUE((Parameter{.name = "LayerNorm_table", .shape = {2, 2}, .role = Role::embedding}.decays()));
  EXPECT_FALSE((Parameter{.name = "ln_f", .shape = {2}, .role = Role::gain}.decays()));
  EXPECT_FALSE((Parameter{.name = "b", .shape = {2}, .role = Role::bias}.decays()));
  EXPECT_FALSE((Parameter{.name = "g", .shape = {1}, .role = Role::gate}.decays()));
  EXPECT_FALSE((Parameter{.name = "buffer", .shape = {2, 2}, .role = Role::statistic}.decays()));
}

}  // namespace
}  // namespace plumb
