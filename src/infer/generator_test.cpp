#include "plumb/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/test_support.h"
#include "infer/logits.h"
#include "infer/test_models.h"
#include "plumb/fill_mask.h"

namespace plumb::test {
namespace {

ModelConfig byte_decoder() {
  ModelConfig c = small_decoder();
  c.vocab_size = 259;
  c.bos_id = 256;
  c.eos_ids = {256};
  return c;
}

ModelConfig byte_translator() {
  ModelConfig c = byte_decoder();
  c.encoder_layers = 1;
  c.decoder_start_id = 257;
  return c;
}

Model filled(const ModelConfig& config) {
  Model model = Model::create(config, 1);
  fill_weights(model.transformer().parameters(), 3);
  return model;
}

class Generators : public testing::Test {
 protected:
  const Tokenizer tokenizer_ = Tokenizer::bytes();
  const Model model_ = filled(byte_decoder());
  const Generator generator_{model_, tokenizer_};
  GenerateOptions options_ = [] {
    GenerateOptions o;
    o.max_new_tokens = 10;
    return o;
  }();
};

TEST_F(Generators, TextsIdsAndBatchesAgree) {
  std::string shown;
  const Generated one =
      generator_.generate("hello", options_, [&](std::string_view piece) { shown += piece; });
  EXPECT_EQ(shown, one.text);
  EXPECT_EQ(one.prompt_tokens, 5);
  const auto batch = generator_.generate(std::vector<std::string>{"hello", "a longer prompt"}, options_);
  EXPECT_EQ(batch[0].ids, one.ids);
  EXPECT_EQ(batch[1].ids, generator_.generate("a longer prompt", options_).ids);
  EXPECT_EQ(generator_.generate_ids({tokenizer_.encode("hello")}, options_)[0].ids, one.ids);
  EXPECT_TRUE(generator_.generate_ids({}, options_).empty());
}

TEST_F(Generators, AnEmptyPromptStartsFromTheFirstToken) {
  EXPECT_EQ(generator_.generate("", options_).ids, generator_.generate_ids({{256}}, options_)[0].ids);
  const Tokenizer letters = Tokenizer::characters("ab");
  EXPECT_NO_THROW(Generator(model_, letters).generate("", options_));
  EXPECT_THROW(generator_.generate_ids({{}}, options_), Error);
}

TEST_F(Generators, OptionsOutOfRangeAreNamed) {
  const auto expect_error = [&](const std::string& name, const auto& change) {
    GenerateOptions o = options_;
    change(o);
    const std::string message = error_of(ErrorKind::usage, [&] { generator_.generate("x", o); });
    EXPECT_NE(message.find(name), std::string::npos) << message;
  };
  expect_error("max_new_tokens", [](auto& o) { o.max_new_tokens = 0; });
  expect_error("temperature", [](auto& o) { o.temperature = -1; });
  expect_error("temperature", [](auto& o) { o.temperature = NAN; });
  expect_error("top_k", [](auto& o) { o.top_k = -1; });
  expect_error("top_p", [](auto& o) { o.top_p = 1.5; });
  expect_error("min_p", [](auto& o) { o.min_p = NAN; });
  expect_error("repetition_penalty", [](auto& o) { o.repetition_penalty = 0; });
  expect_error("beams", [](auto& o) { o.beams = 0; });
  expect_error("temperature", [](auto& o) { o.beams = 2, o.temperature = 1; });
  expect_error("beam_groups", [](auto& o) { o.beams = 4, o.beam_groups = 3; });
  expect_error("results", [](auto& o) { o.results = 2; });
  expect_error("typical_p", [](auto& o) { o.typical_p = 0; });
  expect_error("eta_cutoff", [](auto& o) { o.eta_cutoff = 1; });
  expect_error("dry_base", [](auto& o) { o.dry_base = 0.5; });
  expect_error("logit_bias", [](auto& o) { o.logit_bias = {"15"}; });
  expect_error("logit_bias", [](auto& o) { o.logit_bias = {"=2"}; });
  expect_error("logit_bias", [](auto& o) { o.logit_bias = {"4=nan"}; });
  expect_error("xtc_threshold", [](auto& o) { o.xtc_threshold = 0; });
  expect_error("log_probabilities", [](auto& o) { o.beams = 2, o.log_probabilities = 1; });
  expect_error("prefill_chunk", [](auto& o) { o.prefill_chunk = -2; });
  expect_error("stop", [](auto& o) { o.stop = {""}; });
  expect_error("stop", [](auto& o) { o.stop = {"\xff"}; });
}

TEST_F(Generators, VisitListsEveryFieldOnce) {
  std::vector<std::string> names;
  visit_generate(options_, [&](const char* name, auto&, const char* help) {
    names.push_back(name);
    EXPECT_NE(*help, 0);
  });
  EXPECT_EQ(names.size(), 35u);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
}

TEST_F(Generators, EncodersCannotWrite) {
  ModelConfig c = byte_decoder();
  c.decoder_layers = 0;
  c.encoder_layers = 1;
  EXPECT_THROW(Generator(filled(c), tokenizer_), Error);
}

// B47: the decoder starts from the token that the files name, and from nothing that is guessed.
TEST_F(Generators, B47DecoderStartToken) {
  const Model model = filled(byte_translator());
  const Generator translator(model, tokenizer_);
  const Generated g = translator.generate("abc", options_);
  EXPECT_EQ(g.prompt_tokens, 4);  // and the end token behind the source
  Context context;
  const Transformer& t = model.transformer();
  const Tensor memory = t.encode(context, {Tensor::of<int32_t>({1, 4}, {'a', 'b', 'c', 256})});
  const Tensor logits = t.logits(context, t.decode(context, {Tensor::of<int32_t>({1, 1}, {257})}, memory));
  EXPECT_EQ(g.ids[0], greedy({logits.f32(), 259}));
  EXPECT_EQ(translator.generate_ids({{'a', 'b', 'c', 256}}, options_)[0].ids, g.ids);
  const auto batch = translator.generate(std::vector<std::string>{"a longer source", "abc"}, options_);
  EXPECT_EQ(batch[1].ids, g.ids);
  EXPECT_NO_THROW(translator.generate("", options_));

  ModelConfig without = byte_translator();
  without.decoder_start_id = -1;
  try {
    const Model nameless = filled(without);
    Generator(nameless, tokenizer_).generate("abc", options_);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("decoder_start_token_id"), std::string::npos) << e.what();
  }
}

// Rounding weights to bf16 (8 bits) or f16 (11 bits) moves logits of order 10 by hundredths, and is done
// once.
TEST_F(Generators, WeightsHeldInSixteenBits) {
  const auto logits = [](const Model& model) {
    Context context;
    const Transformer& t = model.transformer();
    const Tensor l = t.logits(context, t.decode(context, {Tensor::of<int32_t>({1, 3}, {65, 66, 67})}));
    return std::vector<float>(l.f32(), l.f32() + l.numel());
  };
  const auto exact = logits(model_);
  for (const auto& [type, tolerance] : {std::pair{StoredType::bf16, 0.4f}, {StoredType::f16, 0.05f}}) {
    Model model = filled(byte_decoder());
    model.hold_as(type);
    const auto rounded = logits(model);
    float worst = 0;
    for (size_t i = 0; i < exact.size(); ++i) worst = std::max(worst, std::abs(exact[i] - rounded[i]));
    EXPECT_GT(worst, 0);
    EXPECT_LT(worst, tolerance);
    EXPECT_NO_THROW(Generator(model, tokenizer_).generate("x", options_));
    model.hold_as(StoredType::f32);
    model.make_trainable();
    for (const auto& p : model.transformer().parameters().all()) {
      EXPECT_EQ(p->value.dtype(), DType::f32);
      EXPECT_EQ(p->value.requires_grad(), p->trainable) << p->name;
    }
  }
  Model large = filled(byte_decoder());
  large.transformer().parameters().all()[0]->value.f32()[0] = 1e5f;
  EXPECT_THROW(large.hold_as(StoredType::f16), Error);
}

TEST_F(Generators, MasksAreFilledByProbability) {
  ModelConfig c = byte_decoder();
  c.decoder_layers = 0;
  c.encoder_layers = 2;
  const Model model = filled(c);
  const auto guesses = fill_masks(model, tokenizer_, "a<|mask|>c<|mask|>", 259);
  ASSERT_EQ(guesses.size(), 2u);
  double sum = 0;
  for (size_t i = 0; i < guesses[0].size(); ++i) {
    sum += guesses[0][i].probability;
    if (i > 0) {
      EXPECT_LE(guesses[0][i].probability, guesses[0][i - 1].probability);
    }
  }
  EXPECT_NEAR(sum, 1, 1e-9);
  EXPECT_EQ(fill_masks(model, tokenizer_, "a<|mask|>c<|mask|>", 1)[1][0].id, guesses[1][0].id);
  EXPECT_THROW(fill_masks(model, tokenizer_, "abc"), Error);
  EXPECT_THROW(fill_masks(model_, tokenizer_, "<|mask|>"), Error);
}

}  // namespace
}  // namespace plumb::test
