// Weights against weights, recorded files, and what is refused.
#include <gtest/gtest.h>

#include "base/test_support.h"
#include "lab/compare_case.h"
#include "lab/compare_predictions.h"

namespace plumb {
namespace {

using namespace compare_test;

TEST(Compare, WeightsByKind) {
  ModelConfig c = small();
  c.positions = Positions::learned;
  c.layer.qkv_fused = c.linear_in_out = true;
  const Model fused = made(c);
  c.layer.qkv_fused = c.linear_in_out = false;
  const Model a = made(c);
  const auto check = [](const Model& x, const std::string& name, FaultKind kind, const auto& change) {
    const Comparison r = Comparison::of_weights(x, with(x, name, change));
    ASSERT_TRUE(r.data().first) << name;
    EXPECT_EQ(r.data().places[*r.data().first].name(), name);
    ASSERT_TRUE(r.data().fault) << r.text();
    EXPECT_EQ(fault_name(r.data().fault->kind), fault_name(kind)) << r.text();
  };
  const auto each = [](const auto& f) {
    return [f](const Tensor& w) { std::transform(w.f32(), w.f32() + w.numel(), w.f32(), f); };
  };
  const auto turned = [](const Tensor& w) { put(w, transposed_values(w)); };
  const auto columns = [](int64_t first) {
    return [first](const Tensor& w) {
      const Tensor t = transposed_values(w).reshape({w.size(1), w.size(0)});
      turn_blocks(t, first, 6, 4);
      put(w, transposed_values(t));
    };
  };
  check(a, "decoder.1.feed_forward.up.weight", FaultKind::scale, each([](float x) { return 2 * x; }));
  check(a, "decoder.1.attention.norm_in.gain", FaultKind::shift, each([](float x) { return x - 1; }));
  check(a, "decoder.1.attention.query.weight", FaultKind::transposed, turned);
  check(a, "decoder.1.feed_forward.down.weight", FaultKind::transposed, turned);
  check(a, "decoder.1.attention.key.weight", FaultKind::head_permutation,
        [](const Tensor& w) { turn_blocks(w, 0, 6, 4); });
  check(a, "decoder.1.attention.output.weight", FaultKind::head_permutation, columns(0));
  check(fused, "decoder.1.attention.qkv.weight", FaultKind::head_permutation,
        columns(24));  // keys of (in, out)
  check(fused, "decoder.1.attention.output.weight", FaultKind::head_permutation,
        [](const Tensor& w) { turn_blocks(w, 0, 6, 4); });
  check(a, "decoder.position_embedding.weight", FaultKind::position_offset,
        [](const Tensor& w) { turn_blocks(w, 0, 1, 16); });
  const auto noise = [](const Tensor& w) {
    for (int64_t i = 0; i < w.numel(); ++i) w.f32()[i] += static_cast<float>(random_normal({9, 9}, i));
  };
  check(a, "decoder.1.attention.norm_in.gain", FaultKind::scale, noise);
  check(a, "decoder.1.feed_forward.norm_in.bias", FaultKind::shift, noise);
  ModelConfig biased = c;
  biased.logits_bias = true;
  check(made(biased), "head.logits_bias", FaultKind::shift, noise);
  ModelConfig without = c;
  without.final_norm = false;
  const Comparison r = Comparison::of_weights(a, like(a, without));
  ASSERT_TRUE(r.data().fault) << r.text();
  EXPECT_EQ(r.data().fault->kind, FaultKind::missing_norm);
  EXPECT_EQ(r.data().fault->words, "B lacks A's decoder.final_norm");
}

TEST(Compare, DifferencesAreByToken) {
  const Tensor b = Tensor::of<float>({1, 3, 2}, {3, 4, 0, 0, 30, 40}),
               a = Tensor::of<float>({1, 3, 2}, {3, 4.5, 0, 0.05f, 30, 40});
  const auto d = difference_by_token(a, b);
  EXPECT_NEAR(d[0], 0.1, 1e-6);
  EXPECT_NEAR(d[1], 0.05 / 0.05, 1e-5);  // of a thousandth of the largest token, 50
  EXPECT_EQ(d[2], 0);
  const Tensor nan = Tensor::of<float>({1, 1, 1}, {NAN}), one = Tensor::of<float>({1, 1, 1}, {1});
  EXPECT_TRUE(std::isinf(difference_by_token(nan, one)[0]));
  EXPECT_TRUE(std::isinf(difference_by_token(one, nan)[0]));
  EXPECT_TRUE(std::isinf(difference_by_token(nan, nan)[0]));
}

TEST(Compare, BadInput) {
  const Model a = made(small());
  const TempFolder folder;
  const auto refused = [&](ErrorKind kind, const auto& f, const std::string& part) {
    const std::string message = error_of(kind, f);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  ModelConfig deep = small(), wide = small(), both = small();
  deep.decoder_layers = 5;
  wide.width = 32;
  both.encoder_layers = 1;
  for (const auto& [config, part] : {std::pair(deep, "A has 3 decoder layers, B has 5"),
                                     {wide, "A has 24 columns"},
                                     {both, "A has 0 encoder layers"}}) {
    const Model b = made(config);
    refused(
        ErrorKind::input, [&] { Comparison::of_models(a, b, kInput); }, part);
    refused(
        ErrorKind::input, [&] { Comparison::of_weights(a, b); }, part);
  }
  ModelConfig hidden = small();
  hidden.layer.ffn_width = 40;
  const Model other = made(hidden);
  refused(
      ErrorKind::input, [&] { Comparison::of_weights(a, other); }, "up.weight is (32, 24) in A and (40, 24)");
  const Comparison columns = Comparison::of_models(a, other, kInput);
  EXPECT_NE(columns.text().find("feed_forward.gate has another number of columns"), std::string::npos)
      << columns.text();
  refused(
      ErrorKind::input, [&] { Comparison::of_models(a, a, {}); }, "no token ids");
  refused(
      ErrorKind::input,
      [&] {
        Comparison::of_models(a, a, {{1}, {1}});
      },
      "for encoder-decoders");
  refused(
      ErrorKind::input,
      [&] {
        Comparison::of_models(a, a, {{99}, {}});
      },
      "outside the vocabulary");
  refused(
      ErrorKind::input,
      [&] {
        Comparison::of_models(a, a, {std::vector<int32_t>(17, 1), {}});
      },
      "longer than the 16");

  const Tensor ids = Tensor::of<int32_t>({1, 7}, kInput.ids), right = Tensor::zeros({1, 7, 24});
  const auto reference = [&](ErrorKind kind, std::vector<SavedTensor> tensors, const std::string& part,
                             const CompareInput& input = {}) {
    write_safetensors(folder / "r", std::move(tensors));
    refused(
        kind, [&] { Comparison::with_reference(a, folder / "r", input); }, part);
  };
  reference(ErrorKind::file, {{"decoder.0.attention.raw", right}}, "no input_ids");
  reference(ErrorKind::file, {{"input_ids", ids, DType::i32}, {"decoder.0.atention.raw", right}},
            "no place decoder.0.atention.raw; did you mean \"decoder.0.attention.raw\"?");
  reference(ErrorKind::file,
            {{"input_ids", ids, DType::i32}, {"decoder.0.attention.raw", Tensor::zeros({1, 7, 23})}},
            "decoder.0.attention.raw is (1, 7, 23), and the model's is (1, 7, 24)");
  reference(ErrorKind::file,
            {{"input_ids", ids, DType::i32}, {"decoder.0.attention.raw", Tensor::zeros({1, 6, 24})}},
            "(1, 6, 24)");
  reference(ErrorKind::file,
            {{"input_ids", ids, DType::i32}, {"decoder.0.attention.raw", Tensor::zeros({2, 7, 24})}},
            "expected (1, T, C)");
  reference(ErrorKind::input, {{"input_ids", ids, DType::i32}, {"decoder.4.attention.raw", right}},
            "of 5 decoder layers, and the model has 3");
  reference(ErrorKind::file, {{"input_ids", Tensor::of<int32_t>({2}, {1, 70}), DType::i32}}, "holds 70");
  reference(ErrorKind::file, {{"input_ids", ids, DType::i32}}, "no activation");
  reference(ErrorKind::input, {{"input_ids", ids, DType::i32}, {"decoder.0.attention.raw", right}},
            "other token ids", {{1, 2}, {}});
  refused(
      ErrorKind::file, [&] { Comparison::with_reference(a, folder / "none", {}); }, "none");
}

}  // namespace
}  // namespace plumb
