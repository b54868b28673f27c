// The reference's greedy texts, met through the public Generator: prompts alone and together, read in chunks
// of any size.
#include "plumb/generator.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/safetensors.h"
#include "support/files.h"

namespace plumb::test {
namespace {

using Ids = std::vector<int32_t>;

class GreedyTexts : public testing::TestWithParam<std::string> {};

std::vector<Ids> rows_of(const SafetensorsFile& file, const std::string& name) {
  const Tensor t = file.tensor(*file.find(name));
  std::vector<Ids> rows(t.size(0));
  for (int64_t b = 0; b < t.size(0); ++b) {
    const int64_t* row = t.data<int64_t>() + b * t.size(1);
    rows[b].assign(row, row + t.size(1));
  }
  return rows;
}

TEST_P(GreedyTexts, AreTheReferences) {
  const auto folder = shared_path("golden") / GetParam();
  SKIP_WITHOUT(folder);
  const Model model = Model::load(folder.string());
  const SafetensorsFile golden((folder / "golden.safetensors").string());
  const Tokenizer tokenizer = Tokenizer::bytes();  // the models have none: only ids count
  const Generator generator(model, tokenizer);
  const bool both = model.config().has_encoder();

  std::vector<Ids> prompts = rows_of(golden, both ? "input_ids" : "prompt_ids");
  const std::vector<Ids> expected = rows_of(golden, "greedy");
  if (both) {
    const Tensor mask = golden.tensor(*golden.find("attention_mask"));
    for (size_t b = 0; b < prompts.size(); ++b) {
      const int64_t* row = mask.data<int64_t>() + b * mask.size(1);
      prompts[b].resize(std::count(row, row + mask.size(1), int64_t{1}));
    }
  }
  GenerateOptions options = generator.defaults();
  EXPECT_EQ(options.temperature, 0);
  const size_t before = both ? 1 : prompts[0].size();
  options.max_new_tokens = static_cast<int64_t>(expected[0].size() - before);
  const auto expect_text = [&](const Generated& g, size_t b) {
    ASSERT_LE(before + g.ids.size(), expected[b].size());
    EXPECT_TRUE(std::equal(g.ids.begin(), g.ids.end(), expected[b].begin() + before)) << "row " << b;
    EXPECT_EQ(g.end, g.ids.size() < expected[b].size() - before || g.end == EndReason::eos
                         ? EndReason::eos
                         : EndReason::max_new_tokens);
  };
  for (const int64_t chunk : {0, 1, 4}) {
    options.prefill_chunk = chunk;
    const auto together = generator.generate_ids(prompts, options);
    for (size_t b = 0; b < prompts.size(); ++b) {
      expect_text(together[b], b);
      expect_text(generator.generate_ids({prompts[b]}, options)[0], b);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GreedyTexts, testing::Values("gpt2", "llama", "marian"),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace plumb::test
