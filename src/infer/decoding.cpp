#include "infer/decoding.h"

#include <algorithm>
#include <cstring>

namespace plumb {
namespace {

// Columns first .. first + count - 1 of a (B, T) tensor.
Tensor columns(const Tensor& t, int64_t first, int64_t count) {
  if (!t.defined() || (first == 0 && count == t.size(1))) return t;
  Tensor part = Tensor::empty({t.size(0), count}, t.dtype());
  const size_t size = dtype_size(t.dtype());
  for (int64_t b = 0; b < t.size(0); ++b) {
    std::memcpy(static_cast<char*>(part.raw()) + b * count * size,
                static_cast<const char*>(t.raw()) + (b * t.size(1) + first) * size, count * size);
  }
  return part;
}

// The last position of each sequence: (B, C) of (B, T, C).
Tensor last_rows(const Tensor& hidden) {
  const int64_t batch = hidden.size(0), length = hidden.size(1), width = hidden.size(2);
  if (length == 1) return hidden.reshape({batch, width});
  Tensor last = Tensor::empty({batch, width});
  for (int64_t b = 0; b < batch; ++b) {
    std::memcpy(last.f32() + b * width, hidden.f32() + ((b + 1) * length - 1) * width, width * sizeof(float));
  }
  return last;
}

}  // namespace

Tokens padded(std::span<const std::vector<int32_t>> sequences, PadSide side) {
  size_t longest = 0, shortest = SIZE_MAX;
  for (const auto& s : sequences) {
    longest = std::max(longest, s.size());
    shortest = std::min(shortest, s.size());
  }
  const int64_t batch = static_cast<int64_t>(sequences.size()), length = static_cast<int64_t>(longest);
  Tokens tokens{.ids = Tensor::zeros({batch, length}, DType::i32)};
  if (shortest < longest) tokens.mask = Tensor::zeros({batch, length}, DType::u8);
  for (int64_t b = 0; b < batch; ++b) {
    const auto& s = sequences[b];
    const int64_t first = b * length + (side == PadSide::left ? length - static_cast<int64_t>(s.size()) : 0);
    std::copy(s.begin(), s.end(), tokens.ids.data<int32_t>() + first);
    if (tokens.mask.defined()) std::fill_n(tokens.mask.data<uint8_t>() + first, s.size(), uint8_t{1});
  }
  return tokens;
}

Decoding::Decoding(const Transformer& model, std::span<const std::vector<int32_t>> prompts,
                   std::span<const std::vector<int32_t>> sources, const Options& options)
    : model_(model),
      cache_(model.make_cache(static_cast<int64_t>(prompts.size()), options.slots)),
      ids_(Tensor::empty({cache_.batch, 1}, DType::i32)),
      observer_(options.observer) {
  for (const auto& prompt : prompts) PLUMB_CHECK(!prompt.empty(), "a sequence of no tokens");
  PLUMB_CHECK(sources.size() == (model.config().has_encoder() ? prompts.size() : 0), "{} sources",
              sources.size());
  if (!sources.empty()) read_sources(sources);
  const Tokens tokens = padded(prompts, PadSide::left);
  const int64_t length = tokens.ids.size(1);
  const int64_t chunk = options.chunk > 0 ? options.chunk : length;
  for (int64_t first = 0; first < length; first += chunk) {
    const int64_t count = std::min(chunk, length - first);
    read({.ids = columns(tokens.ids, first, count), .mask = columns(tokens.mask, first, count)},
         first + count == length);
  }
}

void Decoding::read_sources(std::span<const std::vector<int32_t>> sources) {
  const Tokens tokens = padded(sources, PadSide::right);
  Context context{.observer = begin_pass()};
  cache_.memory = model_.encode(context, tokens);
  cache_.memory_mask = tokens.mask;
}

void Decoding::read(const Tokens& tokens, bool last) {
  Context context{.observer = begin_pass()};
  const Tensor hidden = model_.decode_next(context, tokens, cache_);
  if (last) logits_ = model_.logits(context, last_rows(hidden));
  end_pass();
}

Observer* Decoding::begin_pass() {
  if (observer_ && !in_pass_) watched_ = observer_->wants_pass();
  in_pass_ = true;
  return watched_ ? observer_ : nullptr;
}

void Decoding::end_pass() {
  if (watched_) observer_->finish_pass(std::nullopt);
  in_pass_ = watched_ = false;
}

std::span<float> Decoding::logits(int64_t b) const {
  return {logits_.f32() + b * logits_.width(), static_cast<size_t>(logits_.width())};
}

void Decoding::step(std::span<const int32_t> ids) {
  PLUMB_CHECK(static_cast<int64_t>(ids.size()) == batch(), "{} tokens for {} sequences", ids.size(), batch());
  std::copy(ids.begin(), ids.end(), ids_.data<int32_t>());
  read({.ids = ids_}, true);
}

void Decoding::keep(const std::vector<int64_t>& sequences) {
  cache_.reorder(sequences);
  ids_ = Tensor::empty({cache_.batch, 1}, DType::i32);
}

}  // namespace plumb
