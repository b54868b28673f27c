// Heads over classes: scores, losses and gradients against the slow oracle, by the complex step.
#include "model/classifier.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "base/test_support.h"
#include "model/oracle.h"
#include "model/transformer.h"
#include "plumb/config_fields.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr int kPad = 7;

ModelConfig tiny(Head head, int64_t labels) {
  ModelConfig c;
  c.vocab_size = 11;
  c.width = 8;
  c.max_length = 16;
  c.decoder_layers = 1;
  c.layer.heads = 2;
  c.layer.ffn_width = 12;
  c.tied_embeddings = false;  // of no consequence without a head over the vocabulary
  c.head = head;
  for (int64_t i = 0; i < labels; ++i) c.labels.push_back(std::string(1, static_cast<char>('a' + i)));
  c.head_bias = head != Head::sequence_classification;
  c.pad_id = kPad;
  return c;
}

// Three rows; a padding token may stand in the text, and a row may be all padding.
const oracle::Batch kText{.batch = 3,
                          .length = 4,
                          .ids = {1, kPad, 5, 2, 3, 8, kPad, kPad, kPad, kPad, kPad, kPad},
                          .mask = {1, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0, 0}};

Tokens tokens() {
  return {.ids = Tensor::of<int32_t>({3, 4}, std::vector<int32_t>(kText.ids.begin(), kText.ids.end())),
          .mask = Tensor::of<uint8_t>({3, 4}, std::vector<uint8_t>(kText.mask.begin(), kText.mask.end()))};
}

std::vector<float> numbers(int64_t n, bool whole) {
  std::vector<float> v(n);
  for (int64_t i = 0; i < n; ++i)
    v[i] = whole ? static_cast<float>(i % 3 == 0) : static_cast<float>(random_normal({8, 8}, i));
  return v;
}

// The loss by the formulas, of a mean over the targets.
template <class S>
S oracle_loss(const ModelConfig& c, const oracle::Weights<S>& w, const ClassTargets& t) {
  oracle::Model<S> m(c, w);
  oracle::Matrix<S> h = m.decode(kText, nullptr, nullptr);
  if (c.head == Head::sequence_classification) h = oracle::Model<S>::last_rows(h, kText, kPad);
  const oracle::Matrix<S> y = m.scores(h, class_count(c));
  S sum = 0;
  if (t.starts.defined()) {
    for (const bool end : {false, true}) {
      for (int64_t row = 0; row < 3; ++row) {
        const int32_t target = (end ? t.ends : t.starts).data<int32_t>()[row];
        S z = 0;
        for (int64_t i = 0; i < 4; ++i) z += std::exp(y.at(row * 4 + i, end));
        if (target < 4) sum += std::log(z) - y.at(row * 4 + target, end);
      }
    }
    return sum / 6.0;
  }
  if (t.classes.defined()) {
    const int32_t* classes = t.classes.data<int32_t>();
    return m.loss(y, std::vector<int>(classes, classes + t.classes.numel()), 0, 0);
  }
  const bool several = c.problem == Problem::multi_label || (c.problem == Problem::by_targets && y.width > 1);
  for (size_t i = 0; i < y.v.size(); ++i) {
    const double target = t.values.f32()[i];
    const S p = 1.0 / (1.0 + std::exp(-y.v[i]));
    sum += several ? -target * std::log(p) - (1 - target) * std::log(1.0 - p)
                   : (y.v[i] - target) * (y.v[i] - target);
  }
  return sum / static_cast<double>(y.v.size());
}

void expect_complex_step(const ModelConfig& c, const ClassTargets& targets) {
  Transformer model(c);
  model.parameters().initialize(3);
  oracle::Weights<oracle::Dual> weights;
  for (const auto& p : model.parameters().all()) {
    for (int64_t i = 0; i < p->value.numel(); ++i)
      p->value.f32()[i] += static_cast<float>(0.3 * random_normal({5, random_stream(p->shape.numel())}, i));
    weights.values[p->name].assign(p->value.f32(), p->value.f32() + p->value.numel());
  }
  Tape tape;
  Context context{.tape = &tape, .training = true};
  const Tokens text = tokens();
  const Tensor scores = model.classifier().scores(context, model.decode(context, text), text.ids, text.mask);
  const auto terms = static_cast<double>(targets.terms());
  const LossSums sums = model.classifier().loss(context, scores, targets, 1 / terms);
  tape.backward();
  EXPECT_NEAR(sums.loss / terms, oracle_loss(c, weights, targets).real(), 1e-5);
  for (const auto& p : model.parameters().all()) {
    auto& values = weights.values[p->name];
    for (size_t i = 0; i < values.size(); i += values.size() / 6 + 1) {
      values[i] += oracle::Dual(0, 1e-30);
      EXPECT_NEAR(p->value.grad().f32()[i], oracle_loss(c, weights, targets).imag() / 1e-30, 2e-5)
          << p->name << "[" << i << "]";
      values[i] = values[i].real();
    }
  }
}

TEST(Classifier, LossesAndGradients) {
  const ClassTargets one{.classes = Tensor::of<int32_t>({3}, {2, 0, 1})},
      several{.values = Tensor::of<float>({3, 3}, numbers(9, true))},
      three{.values = Tensor::of<float>({3, 3}, numbers(9, false))},
      number{.values = Tensor::of<float>({3}, numbers(3, false))};
  ModelConfig c = tiny(Head::sequence_classification, 3);
  expect_complex_step(c, one);
  expect_complex_step(c, {.classes = Tensor::of<int32_t>({3}, {2, kIgnore, 1})});
  expect_complex_step(c, several);  // by the targets
  c.linear_in_out = true;           // not of this map
  c.embedding_width = 6;
  c.problem = Problem::regression;
  expect_complex_step(c, three);
  c.problem = Problem::multi_label;
  expect_complex_step(c, several);
  expect_complex_step(tiny(Head::sequence_classification, 1), number);
}

TEST(Classifier, TokensAndAnswers) {
  std::vector<int32_t> classes(12, kIgnore);
  for (const int i : {0, 2, 3, 5}) classes[i] = i % 3;
  expect_complex_step(tiny(Head::token_classification, 3), {.classes = Tensor::of<int32_t>({3, 4}, classes)});
  expect_complex_step(tiny(Head::question_answering, 0), {.starts = Tensor::of<int32_t>({3}, {1, 0, 2}),
                                                          .ends = Tensor::of<int32_t>({3}, {3, 0, 2})});
}

TEST(Classifier, AnswersOutsideOfTheTextAreNone) {
  ModelConfig c = tiny(Head::question_answering, 0);
  Transformer model(c);
  model.parameters().initialize(1);
  Context context;
  const Tokens text = tokens();
  const Tensor scores = model.classifier().scores(context, model.decode(context, text), text.ids, text.mask);
  const LossSums sums = model.classifier().loss(
      context, scores,
      {.starts = Tensor::of<int32_t>({3}, {1, 4, -1}), .ends = Tensor::of<int32_t>({3}, {2, 9, 3})}, 1);
  EXPECT_EQ(sums.count, 3);
}

TEST(Classifier, DropoutIsForTraining) {
  ModelConfig c = tiny(Head::token_classification, 2);
  c.head_dropout = 0.5;
  Transformer model(c);
  model.parameters().initialize(1);
  Context running, training{.training = true};
  const Tensor hidden = Tensor::of<float>({1, 1, 8}, {1, 1, 1, 1, 1, 1, 1, 1});
  const auto scores = [&](Context& context) {
    return model.classifier().scores(context, hidden, Tensor(), Tensor()).f32()[0];
  };
  double sum = 0;
  const float* w = model.parameters().find("head.weight")->value.f32();
  for (int i = 0; i < 8; ++i) sum += w[i];
  EXPECT_NEAR(scores(running), sum, 1e-6);
  EXPECT_NE(scores(training), scores(running));
}

TEST(Classifier, WhatIsWrongIsNamed) {
  ModelConfig c = tiny(Head::sequence_classification, 3);
  c.pad_id = -1;
  Transformer model(c);
  model.parameters().initialize(1);
  Context context;
  const Tokens text = tokens();
  const Tensor hidden = model.decode(context, text);
  const auto says = [](const char* what, const auto& run) {
    const std::string message = error_of(ErrorKind::input, run);
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  const std::string no_tokens = error_of(ErrorKind::unsupported, [&] { model.logits(context, hidden); });
  EXPECT_NE(no_tokens.find("the model's head is sequence-classification"), std::string::npos) << no_tokens;
  const Classifier& head = model.classifier();
  says("no padding token", [&] { head.scores(context, hidden, text.ids, text.mask); });
  const Tensor scores =
      head.scores(context, hidden, text.ids, Tensor());  // of the last ones: nothing is padded
  EXPECT_EQ(scores.shape(), Shape({3, 3}));
  const auto loss = [&](const ClassTargets& t) { return [&] { head.loss(context, scores, t, 1); }; };
  says("target 1 is class 3 of 3", loss({.classes = Tensor::of<int32_t>({3}, {0, 3, 1})}));
  says("there are 2 targets for 3 sequences", loss({.classes = Tensor::of<int32_t>({2}, {0, 1})}));
  says("there are 3", loss({.values = Tensor::of<float>({3}, {0, 1, 1})}));
}

TEST(Classifier, ConfigsThatCannotBe) {
  const auto says = [](const char* what, const ModelConfig& c, ErrorKind kind = ErrorKind::config) {
    const std::string message = error_of(kind, [&] { validate(c); });
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  says("there are no labels", tiny(Head::sequence_classification, 0));
  says("labels are names of classes", tiny(Head::language_model, 2));
  says("labels are names of classes", tiny(Head::question_answering, 2));
  ModelConfig c = tiny(Head::token_classification, 2);
  c.problem = Problem::regression;
  says("which is for sequence-classification", c);
  c = tiny(Head::sequence_classification, 1);
  c.problem = Problem::single_label;
  says("there is one label", c);
  c = tiny(Head::sequence_classification, 2);
  c.logits_softcap = 3;
  says("do not go with the head sequence-classification", c);
  c = tiny(Head::sequence_classification, 2);
  c.encoder_layers = 1;
  says("for decoder-only models", c, ErrorKind::unsupported);
}

}  // namespace
}  // namespace plumb
