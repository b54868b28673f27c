#include "infer/decoding.h"

#include <gtest/gtest.h>

#include <cmath>

#include "infer/test_models.h"
#include "plumb/error.h"
#include "tensor/memory.h"

namespace plumb::test {
namespace {

using Ids = std::vector<int32_t>;

// Sums of a few dozen products in another order: logits are of order 1 to 10.
constexpr float kTolerance = 2e-4f;

Tensor row_of(const Ids& ids) {
  return Tensor::of<int32_t>({1, static_cast<int64_t>(ids.size())}, ids);
}

class Decoders : public testing::TestWithParam<Variant> {
 protected:
  std::unique_ptr<Transformer> model_ = make_model(GetParam().config);
  Context context_;

  bool two_sided() const { return GetParam().config.has_encoder(); }
  Tensor memory(const Ids& source) {
    return two_sided() ? model_->encode(context_, {row_of(source)}) : Tensor();
  }
  // Logits (T, V) of a sequence without a cache.
  Tensor uncached(const Ids& ids, const Ids& source) {
    return model_->logits(context_, model_->decode(context_, {row_of(ids)}, memory(source)));
  }
  std::vector<Ids> sources(std::vector<Ids> all) const {
    return two_sided() ? std::move(all) : std::vector<Ids>();
  }
};

void expect_rows_near(const float* a, const float* b, int64_t width, const std::string& what) {
  float worst = 0, largest = 0;
  for (int64_t i = 0; i < width; ++i) {
    worst = std::max(worst, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  EXPECT_FALSE(std::isnan(worst));
  EXPECT_LE(worst, kTolerance) << what;
  EXPECT_GT(largest, 0.1f) << what;
}

// B36: the same 16 tokens in chunks of any size on a cache that is not empty, and then one query against 16
// keys.
TEST_P(Decoders, B36ChunksOnANonEmptyCacheAgree) {
  const Ids ids = some_ids(17, 1), source = some_ids(6, 2);
  const Tensor expected = uncached(ids, source);
  const std::vector<std::vector<int64_t>> splits = {
      {7, 9, 1},          {3, 4, 9, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
      {2, 1, 4, 3, 6, 1}, {16, 1},      {17}};
  for (const auto& split : splits) {
    Cache cache = model_->make_cache(1, 4);  // grows on the way
    cache.memory = memory(source);
    int64_t first = 0;
    for (const int64_t count : split) {
      const Ids part(ids.begin() + first, ids.begin() + first + count);
      const Tensor logits = model_->logits(context_, model_->decode_next(context_, {row_of(part)}, cache));
      for (int64_t t = 0; t < count; ++t) {
        expect_rows_near(logits.f32() + t * logits.width(), expected.f32() + (first + t) * expected.width(),
                         expected.width(),
                         "position " + std::to_string(first + t) + " in chunks of " +
                             std::to_string(split[0]) + "+" + std::to_string(split.size() - 1));
      }
      first += count;
    }
    EXPECT_EQ(cache.length, 17);
  }
}

// Prompts of different lengths together, and steps after some of them ended: as each alone.
TEST_P(Decoders, PaddedBatchesAgreeWithSinglePrompts) {
  const std::vector<Ids> prompts = {some_ids(3, 3), some_ids(9, 4), some_ids(1, 5), some_ids(9, 6)};
  const std::vector<Ids> from = {some_ids(5, 7), some_ids(2, 8), some_ids(8, 9), some_ids(8, 10)};
  for (const int64_t chunk : {0, 1, 2, 4, 9}) {
    Decoding together(*model_, prompts, sources(from), {.slots = 12, .chunk = chunk});
    std::vector<int64_t> rows = {0, 1, 2, 3};
    std::vector<Ids> texts = prompts;
    for (int step = 0; step < 4; ++step) {
      Ids next;
      for (size_t b = 0; b < rows.size(); ++b) {
        const Tensor alone = uncached(texts[rows[b]], from[rows[b]]);
        const int64_t last = alone.size(1) - 1;
        expect_rows_near(together.logits(static_cast<int64_t>(b)).data(), alone.f32() + last * alone.width(),
                         alone.width(),
                         "prompt " + std::to_string(rows[b]) + " step " + std::to_string(step) + " chunk " +
                             std::to_string(chunk));
        next.push_back(static_cast<int32_t>((step * 7 + rows[b]) % 61));
        texts[rows[b]].push_back(next.back());
      }
      if (step == 1) {
        together.keep({0, 3});
        rows = {0, 3};
        next = {next[0], next[3]};
      }
      together.step(next);
    }
  }
}

TEST_P(Decoders, RightPaddingWithoutACacheAgreesWithSinglePrompts) {
  const std::vector<Ids> prompts = {some_ids(3, 3), some_ids(9, 4), some_ids(1, 5)};
  const std::vector<Ids> from = {some_ids(5, 7), some_ids(2, 8), some_ids(8, 9)};
  Tensor memory_together, memory_mask;
  if (two_sided()) {
    const Tokens tokens = padded(from, PadSide::right);
    memory_together = model_->encode(context_, tokens);
    memory_mask = tokens.mask;
  }
  for (const PadSide side : {PadSide::left, PadSide::right}) {
    const Tensor hidden = model_->decode(context_, padded(prompts, side), memory_together, memory_mask);
    const Tensor logits = model_->logits(context_, hidden);
    for (int64_t b = 0; b < 3; ++b) {
      const Tensor alone = uncached(prompts[b], from[b]);
      const int64_t length = static_cast<int64_t>(prompts[b].size()), width = alone.width();
      for (int64_t t = 0; t < length; ++t) {
        const int64_t at = side == PadSide::left ? 9 - length + t : t;
        expect_rows_near(logits.f32() + (b * 9 + at) * width, alone.f32() + t * width, width,
                         "prompt " + std::to_string(b) + " position " + std::to_string(t));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Decoders, testing::ValuesIn(variants()),
                         [](const auto& tested) { return tested.param.name; });

// B38: a window of W is W keys, the query's own among them. With one layer, a token out of sight changes no
// bit.
TEST(Window, B38SeesItselfAndTheOnesJustBefore) {
  ModelConfig config = small_decoder();
  config.decoder_layers = 1;
  for (const int64_t window : {1, 4, 100}) {
    config.layer.window = window;
    const auto model = make_model(config);
    const Ids ids = some_ids(11, 11);
    const auto last_logits = [&](int64_t changed, int64_t chunk) {
      Ids other = ids;
      if (changed >= 0) other[changed] = (other[changed] + 1) % 61;
      Decoding d(*model, std::vector<Ids>{other}, {}, {.slots = 11, .chunk = chunk});
      const auto row = d.logits(0);
      return std::vector<float>(row.begin(), row.end());
    };
    for (const int64_t chunk : {0, 1}) {
      const auto whole = last_logits(-1, chunk);
      for (int64_t position = 0; position <= 10; ++position) {
        EXPECT_EQ(last_logits(position, chunk) != whole, position > 10 - window)
            << "window " << window << " token " << position << " chunk " << chunk;
      }
    }
  }
}

TEST(Decoding, TooLongOrUnknownIdsAreErrors) {
  const auto model = make_model(small_decoder());
  EXPECT_THROW(Decoding(*model, std::vector<Ids>{some_ids(41, 1)}, {}, {}), Error);
  EXPECT_THROW(Decoding(*model, std::vector<Ids>{{3, 61}}, {}, {}), Error);
  EXPECT_THROW(Decoding(*model, std::vector<Ids>{{-1}}, {}, {}), Error);
  Decoding full(*model, std::vector<Ids>{some_ids(40, 1)}, {}, {});
  EXPECT_THROW(full.step(Ids{1}), Error);
}

// After the first step nothing more is asked of the system.
TEST(Decoding, StepsReuseTheirMemory) {
  const auto model = make_model(small_decoder());
  Decoding d(*model, std::vector<Ids>{some_ids(5, 1)}, {}, {.slots = 40});
  d.step(Ids{1});
  d.step(Ids{2});
  const size_t held = held_memory();
  for (int i = 0; i < 30; ++i) d.step(Ids{i});
  EXPECT_EQ(held_memory(), held);
}

}  // namespace
}  // namespace plumb::test
