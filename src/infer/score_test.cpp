#include "plumb/score.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "base/test_support.h"
#include "infer/test_models.h"
#include "text/prompt.h"

namespace plumb::test {
namespace {

class Score : public testing::Test {
 protected:
  Score() {
    ModelConfig c = small_decoder();
    c.vocab_size = tokenizer.vocab_size();
    c.bos_id = 256;
    model = std::make_unique<Model>(Model::create(c, 1));
    fill_weights(model->transformer().parameters(), 3);
  }
  // log p of each id of a sequence given those before it; 0 for the first.
  std::vector<double> log_probabilities(const std::vector<int32_t>& ids) const {
    Context context;
    const auto count = static_cast<int64_t>(ids.size());
    const Tensor hidden = model->transformer().decode(context, {.ids = Tensor::of<int32_t>({1, count}, ids)});
    const Tensor logits = model->transformer().logits(context, hidden);
    std::vector<double> result(1, 0.0);
    for (int64_t t = 0; t + 1 < count; ++t) {
      const float* row = logits.f32() + t * logits.width();
      double all = 0;
      for (int64_t v = 0; v < logits.width(); ++v) all += std::exp(static_cast<double>(row[v]));
      result.push_back(row[ids[t + 1]] - std::log(all));
    }
    return result;
  }
  double nll(const std::string& text, ScoreOptions o) const {
    return score_text(*model, tokenizer, text, o).nll;
  }

  Tokenizer tokenizer = Tokenizer::bytes();
  std::unique_ptr<Model> model;
};

const std::string kText = "the quick brown fox jumps over the lazy dog, and again the quick brown fox";

// The loop as users of the reference write it.
TEST_F(Score, StridedPerplexity) {
  const std::vector<int32_t> ids = tokenizer.encode(kText);
  const auto count = static_cast<int64_t>(ids.size());
  for (const auto& [length, stride] :
       std::vector<std::pair<int64_t, int64_t>>{{16, 8}, {16, 1}, {16, 16}, {7, 3}, {40, 39}}) {
    double sum = 0;
    int64_t tokens = 0;
    for (int64_t begin = 0, before = 0; before < count; begin += stride) {
      const int64_t end = std::min(begin + length, count);
      const auto log_p = log_probabilities({ids.begin() + begin, ids.begin() + end});
      for (int64_t t = std::max(before - begin, int64_t{1}); t < end - begin; ++t) sum -= log_p[t], ++tokens;
      before = end;
    }
    for (const int64_t batch : {1, 3}) {
      const TextScore got =
          score_text(*model, tokenizer, kText, {.length = length, .stride = stride, .batch = batch});
      EXPECT_EQ(got.tokens, tokens);
      EXPECT_NEAR(got.nll, sum, 1e-4 * sum) << length << " " << stride;
      EXPECT_NEAR(got.perplexity(), std::exp(sum / static_cast<double>(tokens)), 1e-3 * got.perplexity());
    }
  }
  EXPECT_EQ(score_text(*model, tokenizer, "ab").tokens, 1);
}

TEST_F(Score, Choices) {
  const std::string prompt = "the quick";
  const std::vector<std::string> choices = {" brown", "er", " b", "\xc3\xa9"};
  const auto got = score_choices(*model, tokenizer, prompt, choices, {.batch = 3});
  ASSERT_EQ(got.size(), choices.size());
  for (size_t i = 0; i < choices.size(); ++i) {
    const auto log_p = log_probabilities(tokenizer.encode(prompt + choices[i]));
    double sum = 0;
    for (size_t t = prompt.size(); t < log_p.size(); ++t) sum += log_p[t];
    EXPECT_NEAR(got[i].log_probability, sum, 1e-4);
    EXPECT_EQ(got[i].tokens, static_cast<int64_t>(choices[i].size()));
  }
  // Over all tokens, the first of a text included, probabilities sum to 1.
  double all = 0;
  int greedy = 0;
  std::vector<std::string> every;
  for (char c = 0; c < 127; ++c) every.emplace_back(1, c);
  for (const ChoiceScore& c : score_choices(*model, tokenizer, "", every)) {
    all += std::exp(c.log_probability);
    greedy += c.greedy;
  }
  EXPECT_LT(all, 1);
  EXPECT_GT(all, 0.05);
  EXPECT_LE(greedy, 1);
  const auto first = score_choices(*model, tokenizer, "", {"a"});
  EXPECT_NEAR(first[0].log_probability, log_probabilities({256, 'a'})[1], 1e-5);
}

TEST_F(Score, Refusals) {
  const auto refused = [&](const ScoreOptions& o) {
    return error_of(ErrorKind::usage, [&] { score_text(*model, tokenizer, kText, o); });
  };
  EXPECT_NE(refused({.length = 41}).find("length is 41, expected 2 to 40"), std::string::npos);
  EXPECT_NE(refused({.length = 8, .stride = 9}).find("stride is 9"), std::string::npos);
  EXPECT_NE(refused({.batch = 0}).find("batch is 0"), std::string::npos);
  error_of(ErrorKind::input, [&] { score_text(*model, tokenizer, "a"); });
  error_of(ErrorKind::input, [&] { score_choices(*model, tokenizer, "a", {""}); });
  error_of(ErrorKind::input, [&] { score_choices(*model, tokenizer, kText, {"a"}); });
  ModelConfig c = small_decoder();
  c.vocab_size = 259;
  c.encoder_layers = 1;
  const Model both = Model::create(c, 1);
  error_of(ErrorKind::unsupported, [&] { score_text(both, tokenizer, kText); });
}

// What a file's template puts before a text is read, and what it puts after one is not.
TEST(PromptIds, TemplatesOfTheFile) {
  const TempFolder folder;
  const auto with = [&](const std::string& single) {
    const std::string path = folder / "tokenizer.json";
    Tokenizer::bytes().save(path);
    std::string text = read_file(path);
    const std::string none = "\"post_processor\": null";
    const size_t at = text.find(none);
    EXPECT_NE(at, text.npos) << text.substr(0, 600);
    const std::string special = R"({"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}})";
    std::string items = R"({"Sequence": {"id": "A", "type_id": 0}})";
    if (single.starts_with("[")) items = special + "," + items;
    if (single.ends_with("]")) items += "," + special;
    text.replace(
        at, none.size(),
        R"("post_processor": {"type": "TemplateProcessing", "single": [)" + items +
            R"(], "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
                     "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [256], "tokens": ["<|endoftext|>"]}}})");
    write_file_atomically(path, text);
    return Tokenizer::load(path);
  };
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(prompt_ids(with("[A"), "xy"), (Ids{256, 'x', 'y'}));
  EXPECT_EQ(prompt_ids(with("[A]"), "xy"), (Ids{256, 'x', 'y'}));
  EXPECT_EQ(prompt_ids(with("A]"), "xy"), (Ids{'x', 'y'}));
  EXPECT_EQ(prompt_ids(with("[A]"), ""), (Ids{256}));
  EXPECT_EQ(prompt_ids(with("A]"), ""), Ids());
  EXPECT_EQ(prompt_ids(Tokenizer::bytes(), ""), Ids());
}

}  // namespace
}  // namespace plumb::test
