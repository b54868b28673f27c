// Beam search against the recorded texts and scores of every folder that has them (see golden_test.cpp).
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <filesystem>

#include "golden/golden_folders.h"
#include "infer/writing.h"
#include "model/safetensors.h"
#include "plumb/model.h"
#include "support/files.h"

namespace plumb::test {
namespace {

using Ids = std::vector<int32_t>;

// What writing needs a tokenizer for, text, is not what is compared.
Tokenizer numbered_tokens(int64_t count) {
  std::string vocabulary;
  for (int64_t i = 0; i < count; ++i) vocabulary += fmt::format("{}\"t{}\":{}", i == 0 ? "" : ",", i, i);
  const TempFolder folder;
  write_file(folder / "tokenizer.json",
             R"({"model":{"type":"WordLevel","unk_token":"t0","vocab":{)" + vocabulary + "}}}");
  return Tokenizer::load(folder / "tokenizer.json");
}

// Rows of (B, T) ids without what the mask, if there is one, takes out.
std::vector<Ids> rows_of(const Tensor& ids, const Tensor& mask) {
  std::vector<Ids> rows(ids.size(0));
  for (int64_t i = 0; i < ids.numel(); ++i) {
    if (!mask.defined() || mask.data<int64_t>()[i] != 0)
      rows[i / ids.size(1)].push_back(static_cast<int32_t>(ids.data<int64_t>()[i]));
  }
  return rows;
}

class Beams : public testing::TestWithParam<std::string> {};

TEST_P(Beams, AreTheRecordedOnes) {
  const std::filesystem::path path = golden_path() / GetParam();
  SKIP_WITHOUT(path);
  const SafetensorsFile file((path / "golden.safetensors").string());
  if (!file.find("beam4")) GTEST_SKIP() << "no text is recorded: the model does not write";
  Model model = Model::load(path.string());
  model.hold_as(StoredType::f32);  // a product with a weight in bf16 rounds the other operand too
  const Tokenizer tokenizer = numbered_tokens(model.config().vocab_size);
  const auto recorded = [&](const char* name) { return file.tensor(name, DType::i64); };
  const bool both = model.config().has_encoder();
  const GenerateOptions options{.max_new_tokens = 16, .beams = 4};
  Writing writing{.model = model.transformer(),
                  .tokenizer = tokenizer,
                  .defaults = model.generation(),
                  .options = options};
  if (both) {
    writing.sources = rows_of(recorded("input_ids"), recorded("attention_mask"));
    writing.prompts.assign(writing.sources.size(),
                           {static_cast<int32_t>(model.generation().decoder_start_id)});
  } else {
    writing.prompts = rows_of(recorded("prompt_ids"), {});
  }
  const std::vector<Generated> got = search(writing);
  const std::vector<Ids> want = rows_of(recorded("beam4"), {});
  const Tensor scores = file.tensor("beam4_scores", DType::f32);
  ASSERT_EQ(got.size(), want.size());
  for (size_t b = 0; b < got.size(); ++b) {
    Ids ids = writing.prompts[b];
    ids.insert(ids.end(), got[b].ids.begin(), got[b].ids.end());
    ASSERT_LE(ids.size(), want[b].size());
    EXPECT_EQ(ids, Ids(want[b].begin(), want[b].begin() + static_cast<int64_t>(ids.size()))) << b;
    // A text that is shorter than its row has ended: what stands behind it is filling.
    EXPECT_TRUE(ids.size() == want[b].size() || got[b].end == EndReason::eos) << b;
    EXPECT_NEAR(got[b].score, scores.f32()[b], 1e-4) << b;
  }
}

INSTANTIATE_TEST_SUITE_P(Folder, Beams, testing::ValuesIn(golden_folders().compared), folder_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Beams);

}  // namespace
}  // namespace plumb::test
