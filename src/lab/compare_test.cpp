// Each kind of fault made in a model and recognised, against the model itself and against its recorded
// activations; with controls that are sound, or faulty in a way that is none of the kinds.
#include "plumb/compare.h"

#include <gtest/gtest.h>

#include "base/test_support.h"
#include "kernels/embedding.h"
#include "kernels/rope.h"
#include "lab/compare_case.h"
#include "lab/compare_predictions.h"

namespace plumb {
namespace {

using namespace compare_test;

// Both ways of comparing name the kind at the place.
void expect_fault(const Model& a, const Model& b, const std::string& place, FaultKind kind) {
  const TempFolder folder;
  record(b, folder / "b.safetensors");
  const Comparison models = Comparison::of_models(a, b, kInput),
                   recorded = Comparison::with_reference(a, folder / "b.safetensors", {});
  for (const Comparison* c : {&models, &recorded}) {
    const ComparisonData& d = c->data();
    ASSERT_TRUE(d.first) << place;
    EXPECT_EQ(d.places[*d.first].name(), place) << c->text();
    ASSERT_TRUE(d.fault) << c->text();
    EXPECT_EQ(fault_name(d.fault->kind), fault_name(kind)) << c->text();
    EXPECT_NE(c->text().find("Kind: " + fault_name(kind)), std::string::npos);
    EXPECT_FALSE(c->equal());
  }
}

TEST(Compare, SoundControls) {
  for (const test::Variant& v : test::variants()) {
    const Model a = made(v.config), b = like(a, v.config);
    const bool both = v.config.has_encoder() && v.config.has_decoder();
    const CompareInput input{kInput.ids, both ? std::vector<int32_t>{3, 5, 1} : std::vector<int32_t>()};
    const Comparison same = Comparison::of_models(a, b, input);
    EXPECT_TRUE(same.equal()) << v.name << same.text();
    EXPECT_FALSE(same.data().fault) << v.name;
    EXPECT_GT(same.data().places.size(), 20u) << v.name;
    EXPECT_NE(same.text().find("Equal within the tolerance"), std::string::npos);
    EXPECT_TRUE(Comparison::of_weights(a, b).equal()) << v.name;
    // Rounding of the weights is no difference, at 1e-4; at 1e-9 it is.
    for (const auto& p : b.transformer().parameters().all()) {
      for (int64_t i = 0; i < p->value.numel(); ++i) p->value.f32()[i] *= i % 2 ? 1 + 2e-7f : 1 - 2e-7f;
    }
    EXPECT_TRUE(Comparison::of_models(a, b, input).equal()) << v.name;
    EXPECT_FALSE(Comparison::of_models(a, b, input, {.tolerance = 1e-9}).equal()) << v.name;
  }
}

TEST(Compare, OtherFaultsHaveNoKind) {
  const Model a = made(small());
  for (const char* name : {"decoder.1.attention.query.weight", "decoder.1.feed_forward.down.weight",
                           "decoder.1.attention.norm_in.gain", "token_embedding.weight", "head.weight"}) {
    const Model b = with(a, name, [](const Tensor& w) {
      for (int64_t i = 0; i < w.numel(); ++i)
        w.f32()[i] += 0.2f * static_cast<float>(random_normal({9, 9}, i));
    });
    const Comparison c = Comparison::of_models(a, b, kInput);
    ASSERT_TRUE(c.data().first) << name;
    if (std::string_view(name) == "decoder.1.attention.norm_in.gain") {  // scale, by column
      ASSERT_TRUE(c.data().fault) << c.text();
      EXPECT_EQ(c.data().fault->kind, FaultKind::scale) << c.text();
      continue;
    }
    EXPECT_FALSE(c.data().fault) << name << c.text();
    EXPECT_FALSE(Comparison::of_weights(a, b).data().fault) << name;
  }
}

TEST(Compare, Scale) {
  ModelConfig plain_norm = small();
  plain_norm.layer.norm_bias = false;
  const Model a = made(plain_norm);
  expect_fault(a,
               with(a, "decoder.1.attention.output.weight",
                    [](const Tensor& w) {
                      for (int64_t i = 0; i < w.numel(); ++i) w.f32()[i] *= 1.1f;
                    }),
               "decoder.1.attention.raw", FaultKind::scale);
  expect_fault(a,
               with(a, "decoder.2.feed_forward.norm_in.gain",
                    [](const Tensor& w) {
                      for (int64_t i = 0; i < w.numel(); ++i) w.f32()[i] += 1;  // w where 1 + w is meant
                    }),
               "decoder.2.feed_forward.input", FaultKind::scale);
  ModelConfig scaled = a.config();
  scaled.embedding_scale = 4;
  expect_fault(a, like(a, scaled), "decoder.embedding", FaultKind::scale);
}

// A table of tokens whose factor was forgotten, under positions that have none.
TEST(Compare, ScaleOfTokensUnderPositions) {
  for (const Positions positions : {Positions::learned, Positions::sinusoidal}) {
    ModelConfig c = small();
    c.positions = positions;
    const Model a = made(c);
    expect_fault(a,
                 with(a, "token_embedding.weight",
                      [](const Tensor& w) {
                        for (int64_t i = 0; i < w.numel(); ++i) w.f32()[i] *= 4.9f;
                      }),
                 "decoder.embedding", FaultKind::scale);
  }
}

// The kind is that of the first difference, not of a fault further on.
TEST(Compare, NoLaterFaultIsTakenForTheFirst) {
  const Model a = made(small());
  const Model noisy = with(a, "token_embedding.weight", [](const Tensor& w) {
    for (int64_t i = 0; i < w.numel(); ++i) w.f32()[i] += static_cast<float>(random_normal({9, 9}, i));
  });
  const Model both =
      with(noisy, "decoder.1.attention.query.weight", [](const Tensor& w) { put(w, transposed_values(w)); });
  const Comparison c = Comparison::of_models(a, both, kInput);
  EXPECT_EQ(c.data().places[*c.data().first].name(), "decoder.embedding");
  EXPECT_FALSE(c.data().fault) << c.text();
}

TEST(Compare, Shift) {
  ModelConfig biased = small();
  biased.layer.ffn_bias = true;
  const Model a = made(biased);
  expect_fault(
      a,
      with(a, "decoder.1.feed_forward.down.bias", [](const Tensor& w) { put(w, Tensor::zeros(w.shape())); }),
      "decoder.1.feed_forward.raw", FaultKind::shift);
  expect_fault(a,
               with(a, "decoder.0.attention.norm_in.bias",
                    [](const Tensor& w) {
                      for (int64_t i = 0; i < w.numel(); ++i) w.f32()[i] += 0.5f;
                    }),
               "decoder.0.attention.input", FaultKind::shift);
}

TEST(Compare, PermutationOfHeads) {
  const Model a = made(small());
  const auto turned = [](const Tensor& w) { turn_blocks(w, 0, 6, 4); };
  expect_fault(a, with(a, "decoder.1.attention.query.weight", turned), "decoder.1.attention.query",
               FaultKind::head_permutation);
  expect_fault(a, with(a, "decoder.0.attention.value.weight", turned), "decoder.0.attention.value",
               FaultKind::head_permutation);
  ModelConfig grouped = small();
  grouped.layer.kv_heads = 2;
  const Model g = made(grouped);
  expect_fault(g, with(g, "decoder.1.attention.key.weight", [](const Tensor& w) { turn_blocks(w, 0, 6, 2); }),
               "decoder.1.attention.key", FaultKind::head_permutation);
  // Of an output projection only the weights tell.
  const Comparison c = Comparison::of_models(a,
                                             with(a, "decoder.1.attention.output.weight",
                                                  [](const Tensor& w) {
                                                    put(w, [&] {
                                                      const Tensor t = transposed_values(w);
                                                      turn_blocks(t, 0, 6, 4);
                                                      return transposed_values(t);
                                                    }());
                                                  }),
                                             kInput);
  ASSERT_TRUE(c.data().fault) << c.text();
  EXPECT_EQ(c.data().fault->kind, FaultKind::head_permutation) << c.text();
}

TEST(Compare, TransposedMatrix) {
  const auto turned = [](const Tensor& w) { put(w, transposed_values(w)); };
  ModelConfig c = small();
  const Model a = made(c);
  for (const auto& [name, place] : std::vector<std::pair<const char*, const char*>>{
           {"decoder.1.attention.query.weight", "decoder.1.attention.query"},
           {"decoder.1.attention.value.weight", "decoder.1.attention.value"},
           {"decoder.1.attention.output.weight", "decoder.1.attention.raw"},
           {"decoder.1.feed_forward.gate.weight", "decoder.1.feed_forward.gate"},
           {"decoder.1.feed_forward.up.weight", "decoder.1.feed_forward.up"},
           {"decoder.1.feed_forward.down.weight", "decoder.1.feed_forward.raw"},
           {"head.weight", "head.logits"}}) {
    expect_fault(a, with(a, name, turned), place, FaultKind::transposed);
  }
  c.linear_in_out = c.layer.qkv_fused = c.layer.attention_bias = c.layer.ffn_bias = true;
  c.layer.gated = false;
  const Model gpt2 = made(c);
  expect_fault(gpt2, with(gpt2, "decoder.1.attention.output.weight", turned), "decoder.1.attention.raw",
               FaultKind::transposed);
  expect_fault(gpt2, with(gpt2, "decoder.1.feed_forward.up.weight", turned), "decoder.1.feed_forward.up",
               FaultKind::transposed);
  expect_fault(gpt2, with(gpt2, "decoder.1.feed_forward.down.weight", turned), "decoder.1.feed_forward.raw",
               FaultKind::transposed);
  expect_fault(gpt2, with(gpt2, "decoder.2.attention.qkv.weight", turned), "decoder.2.attention.query",
               FaultKind::transposed);
}

TEST(Compare, MissingResidual) {
  for (const Placement placement : {Placement::pre_norm, Placement::post_norm, Placement::sandwich,
                                    Placement::layer_scale, Placement::deep_norm}) {
    const Model a = made(small(placement));
    ModelConfig c = a.config();
    LayerConfig without = c.layer;
    without.alpha = 0;
    c.decoder_runs = {{1, 1, without}};
    const bool post = placement == Placement::post_norm || placement == Placement::deep_norm;
    expect_fault(a, like(a, c), post ? "decoder.1.attention.sum" : "decoder.1.attention.output",
                 FaultKind::missing_residual);
  }
}

TEST(Compare, MissingResidualBehindANorm) {
  // A reference that recorded no sums: only what the norm made of them.
  const Model a = made(small(Placement::post_norm));
  ModelConfig c = a.config();
  c.layer.alpha = 0;
  const Model b = like(a, c);
  const TempFolder folder;
  const Observed seen = observe_pass(b.transformer(), {.ids = kInput.ids});
  write_safetensors(folder / "r",
                    {{"decoder.0.attention.output", seen.value("decoder.0.attention", "output")},
                     {"input_ids", Tensor::of<int32_t>({7}, kInput.ids), DType::i32}});
  const Comparison r = Comparison::with_reference(a, folder / "r", kInput);
  ASSERT_TRUE(r.data().fault) << r.text();
  EXPECT_EQ(r.data().fault->kind, FaultKind::missing_residual);
}

TEST(Compare, MissingNorm) {
  const auto check = [](Placement placement, const std::function<void(ModelConfig&, LayerConfig&)>& remove,
                        const std::string& place, Positions positions = Positions::rope) {
    ModelConfig c = small(placement);
    c.embedding_norm = true;
    c.layer.qk_norm = QkNorm::per_head;
    c.positions = positions;
    const Model a = made(c);
    LayerConfig without = c.layer;
    remove(c, without);
    c.decoder_runs = {{1, 1, without}};
    const Model b = like(a, c);
    expect_fault(a, b, place, FaultKind::missing_norm);
    // The other way round the model without it is told by the one with it.
    const Comparison other = Comparison::of_models(b, a, kInput);
    ASSERT_TRUE(other.data().fault) << place << other.text();
    EXPECT_EQ(other.data().fault->kind, FaultKind::missing_norm) << other.text();
    EXPECT_NE(other.data().fault->words.find("A lacks B's"), std::string::npos) << other.data().fault->words;
  };
  using M = ModelConfig;
  using L = LayerConfig;
  check(
      Placement::pre_norm, [](M&, L& l) { l.norm_in = false; }, "decoder.1.attention.input");
  check(
      Placement::layer_norm_scaling, [](M&, L& l) { l.norm_in = false; }, "decoder.1.attention.input");
  check(
      Placement::sandwich, [](M&, L& l) { l.norm_branch = false; }, "decoder.1.attention.branch");
  check(
      Placement::post_norm, [](M&, L& l) { l.norm_out = false; }, "decoder.1.attention.output");
  check(
      Placement::sub_ln, [](M&, L& l) { l.norm_inner = false; }, "decoder.1.attention.raw");
  for (const Positions p : {Positions::rope, Positions::learned}) {
    check(
        Placement::pre_norm, [](M&, L& l) { l.qk_norm = QkNorm::none; }, "decoder.1.attention.q", p);
  }
  check(
      Placement::pre_norm, [](M& c, L&) { c.final_norm = false; }, "decoder.final");
  check(
      Placement::pre_norm, [](M& c, L&) { c.embedding_norm = false; }, "decoder.0.attention.stream");
}

TEST(Compare, PositionOffset) {
  ModelConfig c = small();
  c.positions = Positions::learned;
  const Model a = made(c);
  expect_fault(
      a, with(a, "decoder.position_embedding.weight", [](const Tensor& w) { turn_blocks(w, 0, 1, 16); }),
      "decoder.embedding", FaultKind::position_offset);
  expect_fault(a,
               with(a, "decoder.position_embedding.weight",
                    [](const Tensor& w) {
                      std::rotate(w.f32(), w.f32() + 14 * w.width(),
                                  w.f32() + w.numel());  // row 2 holds row 0
                    }),
               "decoder.embedding", FaultKind::position_offset);
  c.positions = Positions::sinusoidal;
  const Model fixed = made(c);
  c.positions = Positions::learned;
  const Model table = like(fixed, c);
  Tensor sines = Tensor::empty({18, 24});
  sinusoidal_table(Sinusoid::interleaved, 18, 24, sines.f32());
  put(weight(table, "decoder.position_embedding.weight"),
      sines.rows_view(2, 16));  // counts from 2, as OPT's does
  expect_fault(fixed, table, "decoder.embedding", FaultKind::position_offset);
}

TEST(Compare, PositionOffsetOfRotaryPositions) {
  const Model a = made(small());
  Observed seen = observe_pass(a.transformer(), {.ids = kInput.ids});
  const Tensor q = seen.value("decoder.1.attention", "q").clone();
  const RopeTable table = rope_table(rope_frequencies(10000, 6), 2);
  const std::vector<int32_t> one(7, 1);
  rope({.x = q.f32(),
        .rows = 7,
        .row_stride = 24,
        .heads = 4,
        .head_dim = 6,
        .rotary_dim = 6,
        .cos = table.cos.data(),
        .sin = table.sin.data(),
        .positions = one.data()});
  const TempFolder folder;
  write_safetensors(folder / "r", {{"decoder.1.attention.q", q},
                                   {"input_ids", Tensor::of<int32_t>({7}, kInput.ids), DType::i32}});
  const Comparison r = Comparison::with_reference(a, folder / "r", {});
  ASSERT_TRUE(r.data().fault) << r.text();
  EXPECT_EQ(r.data().fault->kind, FaultKind::position_offset) << r.text();
  EXPECT_NE(r.data().fault->words.find("from 1 where"), std::string::npos) << r.data().fault->words;
}

// The same layers as the other kind of stack: a decoder without its mask is an encoder.
Model as_other_stack(const Model& from) {
  ModelConfig c = from.config();
  std::swap(c.encoder_layers, c.decoder_layers);
  Model model = made(c);
  for (const auto& p : model.transformer().parameters().all()) {
    std::string name = p->name;
    for (const auto& [mine, other] : {std::pair{"encoder.", "decoder."}, std::pair{"decoder.", "encoder."}}) {
      if (p->name.starts_with(mine)) name = other + p->name.substr(8);
    }
    put(p->value, weight(from, name));
  }
  return model;
}

// What the other kind of stack shows, under this one's names; without its heads where a reference has none.
void record_as(const Model& model, const std::string& stack, bool heads, const std::string& path) {
  std::vector<SavedTensor> tensors{{"input_ids", Tensor::of<int32_t>({7}, kInput.ids), DType::i32}};
  const Observed observed = observe_pass(model.transformer(), {.ids = kInput.ids});
  for (const Kept& k : observed.all()) {
    if (!heads && k.quantity == "heads") continue;
    const bool inside = k.module.starts_with("encoder") || k.module.starts_with("decoder");
    tensors.push_back({inside ? stack + k.name().substr(7) : k.name(), k.value});
  }
  write_safetensors(path, tensors);
}

TEST(Compare, MissingCausalMask) {
  ModelConfig c = small();
  c.layer.kv_heads = 2;
  const TempFolder folder;
  for (const bool decoder : {true, false}) {
    if (!decoder) std::swap(c.encoder_layers, c.decoder_layers);
    const Model a = made(c), b = as_other_stack(a);
    const std::string stack = decoder ? "decoder" : "encoder";
    for (const bool heads : {true, false}) {
      record_as(b, stack, heads, folder / "b");
      const Comparison r = Comparison::with_reference(a, folder / "b", {});
      ASSERT_TRUE(r.data().first && r.data().fault) << r.text();
      EXPECT_EQ(r.data().places[*r.data().first].name(), stack + ".0.attention." + (heads ? "heads" : "raw"));
      EXPECT_EQ(r.data().fault->kind, FaultKind::other_mask) << r.text();
      EXPECT_NE(r.data().fault->words.find(decoder ? "no causal mask" : "a causal mask"), std::string::npos)
          << r.data().fault->words;
    }
  }
}

TEST(Compare, OtherPairingOfRotaryDims) {
  for (const QkNorm norm : {QkNorm::none, QkNorm::per_head}) {
    ModelConfig c = small();
    c.layer.qk_norm = norm;
    const Model a = made(c);
    c.layer.rope.interleaved = !c.layer.rope.interleaved;
    expect_fault(a, like(a, c), "decoder.0.attention.q", FaultKind::rotary_pairing);
  }
}

TEST(Compare, MissingWindow) {
  ModelConfig c = small();
  c.layer.window = 3;
  const Model a = made(c);
  c.layer.window = 0;
  expect_fault(a, like(a, c), "decoder.0.attention.heads", FaultKind::other_mask);
}

}  // namespace
}  // namespace plumb
