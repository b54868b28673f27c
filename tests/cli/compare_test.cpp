// plumb compare: its answers, its exit status, and what it refuses.
#include <gtest/gtest.h>

#include <algorithm>

#include "model/safetensors.h"
#include "model/transformer.h"
#include "plumb/model.h"
#include "plumb/tokenizer.h"
#include "support/files.h"
#include "support/process.h"

namespace plumb::test {
namespace {

ModelConfig small() {
  ModelConfig c;
  c.vocab_size = Tokenizer::bytes().vocab_size();
  c.width = 16;
  c.max_length = 24;
  c.decoder_layers = 2;
  return c;
}

// Saves the model with the heads of a query turned where `faulty`.
void save_model(const std::string& folder, const ModelConfig& config, bool faulty = false) {
  const Model model = Model::create(config, 1);
  if (faulty) {
    const Tensor w = model.transformer().parameters().find("decoder.1.attention.query.weight")->value;
    std::rotate(w.f32(), w.f32() + 4 * 16, w.f32() + w.numel());
  }
  model.save(folder);
  Tokenizer::bytes().save(folder);
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

TEST(CompareCommand, EqualAndDifferent) {
  const TempFolder folder;
  save_model(folder / "a", small());
  save_model(folder / "run/model", small());
  save_model(folder / "b", small(), true);
  for (const std::vector<std::string>& how :
       {std::vector<std::string>{"--text", "some text"}, {"--ids", "5,6,7,200"}, {"--weights"}}) {
    std::vector<std::string> arguments{"compare", folder / "a", folder / "run"};
    arguments.insert(arguments.end(), how.begin(), how.end());
    const auto equal = run_plumb(arguments);
    EXPECT_EQ(equal.exit_code, 0) << equal.out << equal.err;
    EXPECT_TRUE(says(equal.out, "Equal within the tolerance")) << equal.out;
    arguments[2] = folder / "b";
    const auto different = run_plumb(arguments);
    EXPECT_EQ(different.exit_code, 1) << different.out << different.err;
    EXPECT_EQ(different.err, "");
    EXPECT_TRUE(says(different.out, "First difference: decoder.1.attention.query")) << different.out;
    EXPECT_TRUE(says(different.out, "Kind: permutation of heads")) << different.out;
    arguments.insert(arguments.end(), {"--tolerance", "1e6"});
    EXPECT_EQ(run_plumb(arguments).exit_code, 0);
  }
}

TEST(CompareCommand, OtherTokenizersAreNamed) {
  const TempFolder folder;
  save_model(folder / "a", small());
  save_model(folder / "b", small());
  const auto compare = [&](const std::vector<std::string>& how) {
    std::vector<std::string> arguments{"compare", folder / "a", folder / "b"};
    arguments.insert(arguments.end(), how.begin(), how.end());
    const auto result = run_plumb(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    return result.out;
  };
  EXPECT_FALSE(says(compare({"--text", "some text"}), "tokenizers differ"));
  // B's tokenizer has the ids of two bytes changed over.
  const std::string path = folder / "b/tokenizer.json";
  std::string json = read_file(path);
  const auto id_of = [&](const std::string& token) {
    const size_t at = json.find("\"" + token + "\"");
    return json.find_first_of("0123456789", at + 3 + token.size());
  };
  const size_t e = id_of("e"), t = id_of("t");
  ASSERT_LT(e, json.size());
  ASSERT_LT(t, json.size());
  const std::string of_e = json.substr(e, 3), of_t = json.substr(t, 3);
  json.replace(e, 3, of_t).replace(t, 3, of_e);
  write_file(path, json);
  EXPECT_TRUE(says(compare({"--text", "some text"}), "tokenizers differ"));
  EXPECT_FALSE(says(compare({"--ids", "1,2"}), "tokenizers differ"));
}

TEST(CompareCommand, Reference) {
  const TempFolder folder;
  save_model(folder / "a", small());
  const std::vector<int32_t> ids{5, 6, 7};
  write_safetensors(folder / "r.safetensors", {{"input_ids", Tensor::of<int32_t>({1, 3}, ids), DType::i32},
                                               {"decoder.final", Tensor::zeros({1, 3, 16})}});
  for (const std::vector<std::string>& more : {std::vector<std::string>(), {"--ids", "5,6,7"}}) {
    std::vector<std::string> arguments{"compare", folder / "a", folder / "r.safetensors"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto result = run_plumb(arguments);
    EXPECT_EQ(result.exit_code, 1) << result.err;
    EXPECT_TRUE(says(result.out, "First difference: decoder.final")) << result.out;
  }
}

TEST(CompareCommand, BadInputIsOneLine) {
  const TempFolder folder;
  save_model(folder / "a", small());
  ModelConfig deep = small();
  deep.decoder_layers = 3;
  save_model(folder / "deep", deep);
  write_file(folder.path() / "text", "not activations");
  const auto refused = [&](std::vector<std::string> arguments, int code, const std::string& reason) {
    arguments.insert(arguments.begin(), "compare");
    const auto result = run_plumb(arguments);
    EXPECT_TRUE(is_one_line_error(result, code)) << result.exit_code << result.err;
    EXPECT_TRUE(says(result.err, reason)) << result.err;
    EXPECT_EQ(result.out, "");
  };
  const std::string a = folder / "a";
  refused({a}, 2, "b");
  refused({a, a}, 2, "--text or --ids");
  refused({a, a, "--text", "x", "--ids", "1"}, 2, "not both");
  refused({a, a, "--ids", "1", "--target", "x"}, 2, "--target");
  refused({a, a, "--ids", "-1"}, 2, "-1 is no token id");
  refused({a, a, "--ids", "999"}, 1, "outside the vocabulary");
  refused({a, a, "--text", std::string(25, 'x')}, 1, "25 tokens is longer than the 24");
  refused({a, a, "--text", "x", "--tolerance", "-2"}, 2, "--tolerance is -2");
  refused({a, a, "--weights", "--text", "x"}, 2, "reads no input");
  refused({a, folder / "none", "--ids", "1"}, 1, "none does not exist");
  refused({folder / "none", a, "--ids", "1"}, 1, "none");
  refused({a, folder / "deep", "--ids", "1"}, 1, "2 decoder layers");
  refused({a, folder / "deep", "--weights"}, 1, "2 decoder layers");
  refused({a, folder / "text"}, 1, "text");
  refused({a, folder / "text", "--weights"}, 2, "two models");
}

}  // namespace
}  // namespace plumb::test
