#include "plumb/fill_mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "infer/decoding.h"
#include "infer/logits.h"
#include "plumb/error.h"

namespace plumb {
namespace {

std::vector<MaskGuess> likeliest(std::span<const float> logits, const Tokenizer& tokenizer, int count) {
  std::vector<int32_t> ids(logits.size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  const size_t kept = std::min<size_t>(count, ids.size());
  std::partial_sort(
      ids.begin(), ids.begin() + static_cast<int64_t>(kept), ids.end(),
      [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  double all = 0;
  for (const float logit : logits) all += std::exp(static_cast<double>(logit) - logits[ids[0]]);
  std::vector<MaskGuess> guesses;
  for (size_t i = 0; i < kept; ++i) {
    const int32_t id = ids[i];
    const double p = std::exp(static_cast<double>(logits[id]) - logits[ids[0]]) / all;
    guesses.push_back({id, tokenizer.decode(std::span(&id, 1), true), p});
  }
  return guesses;
}

// Text with mask tokens in it as ids, as the encoder was trained: between the tokenizer's first and last
// token where it has different ones.
std::vector<int32_t> masked_ids(const Tokenizer& tokenizer, std::string_view text, int32_t mask) {
  std::vector<int32_t> ids = tokenizer.encode(text, true);
  if (std::find(ids.begin(), ids.end(), mask) == ids.end()) {
    throw Error(ErrorKind::input,
                fmt::format("the text has no mask token to fill: write {}", tokenizer.token(mask)));
  }
  return ids;
}

}  // namespace

std::vector<std::vector<MaskGuess>> fill_masks(const Model& model, const Tokenizer& tokenizer,
                                               std::string_view text, int count) {
  const ModelConfig& c = model.config();
  const auto mask = tokenizer.special(TokenRole::mask);
  if (c.has_decoder() || c.head != Head::language_model || !mask) {
    throw Error(
        ErrorKind::unsupported,
        "filling masks takes an encoder with a language-model head and a tokenizer with a mask token");
  }
  if (count < 1) throw Error(ErrorKind::usage, fmt::format("count is {}, expected at least 1", count));
  const std::vector<int32_t> ids = masked_ids(tokenizer, text, *mask);
  Context context;
  const Tensor hidden = model.transformer().encode(context, padded(std::span(&ids, 1), PadSide::right));
  const int64_t vocabulary = std::min<int64_t>(c.vocab_size, tokenizer.vocab_size());
  std::vector<std::vector<MaskGuess>> guesses;
  for (size_t t = 0; t < ids.size(); ++t) {
    if (ids[t] != *mask) continue;
    const Tensor row = hidden.reshape({hidden.size(1), hidden.size(2)}).rows_view(static_cast<int64_t>(t), 1);
    const Tensor logits = model.transformer().logits(context, row);
    check_finite({logits.f32(), static_cast<size_t>(vocabulary)});
    guesses.push_back(likeliest({logits.f32(), static_cast<size_t>(vocabulary)}, tokenizer, count));
  }
  return guesses;
}

}  // namespace plumb
