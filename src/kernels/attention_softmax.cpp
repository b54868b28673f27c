#include "kernels/attention_softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_math-inl.h"
#include "kernels/simd_random-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {

using F32 = hn::ScalableTag<float>;
using VecF32 = hn::Vec<F32>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The whole vectors that hold a row's visible scores.
struct Span {
  int64_t begin, end;
};
Span vectors_of(const ScoreRow& row) {
  const int64_t lanes = hn::Lanes(F32());
  return {row.begin / lanes * lanes, (row.end + lanes - 1) / lanes * lanes};
}

// `hidden` in the span beside the visible ones, 0 outside it, so that the loops below need no masks.
void fill_hidden(const ScoreTile& tile, const ScoreRow& row, Span span, float* x, float hidden) {
  std::fill(x, x + span.begin, 0.0f);
  std::fill(x + span.begin, x + row.begin, hidden);
  std::fill(x + row.end, x + span.end, hidden);
  std::fill(x + span.end, x + std::max(span.end, tile.key_count), 0.0f);
}

void add_alibi(const ScoreTile& tile, const ScoreRow& row, float* x) {
  if (tile.slots) {
    for (int64_t j = row.begin; j < row.end; ++j) {
      x[j] -= row.alibi_slope * static_cast<float>(std::abs(row.query_slot - tile.slots[j]));
    }
    return;
  }
  const auto nearest = static_cast<float>(tile.first_slot + row.begin - row.query_slot);
  for_lanes(row.end - row.begin, [&](auto d, size_t i) HWY_ATTR {
    const auto distance = hn::Abs(hn::Add(hn::Set(d, nearest), hn::Iota(d, static_cast<float>(i))));
    float* p = x + row.begin + i;
    hn::StoreU(hn::NegMulAdd(hn::Set(d, row.alibi_slope), distance, hn::LoadU(d, p)), d, p);
  });
}

// Random words of a row's pairs, and the rule by which they drop.
class Dropout {
 public:
  explicit Dropout(const ScoreTile& tile)
      : tile_(tile),
        threshold_(static_cast<uint32_t>(std::ceil(static_cast<double>(tile.dropout) * 0x1p32))),
        scale_(1.0f / (1.0f - tile.dropout)),
        words_(tile.dropout > 0 ? tile.key_count + 6 * kScoreAlignment : 0) {}

  bool on() const { return tile_.dropout > 0; }

  // Words for the pairs with keys [span.begin, span.end), some of which may lie beyond the tile.
  void start_row(const ScoreRow& row, Span span) {
    if (!on()) return;
    if (!tile_.slots) {
      const uint64_t first = row.first_pair + tile_.first_slot + span.begin;
      random_blocks(tile_.dropout_key, first / 4, (span.end - span.begin + 6) / 4, words_.data());
      offset_ = static_cast<int64_t>(first % 4) - span.begin;
      return;
    }
    for (int64_t j = row.begin; j < row.end; ++j) {
      const uint64_t pair = row.first_pair + tile_.slots[j];
      words_[j - span.begin] = random_block(tile_.dropout_key, pair / 4)[pair % 4];
    }
    offset_ = -span.begin;
  }

  // x / (1 - p) where kept, 0 where dropped.
  VecF32 apply(VecF32 x, int64_t j) const {
    const F32 d;
    const hn::RebindToUnsigned<F32> du;
    const auto dropped = hn::Lt(hn::LoadU(du, words_.data() + offset_ + j), hn::Set(du, threshold_));
    return hn::IfThenZeroElse(hn::RebindMask(d, dropped), hn::Mul(x, hn::Set(d, scale_)));
  }

 private:
  const ScoreTile& tile_;
  uint32_t threshold_;
  float scale_;
  std::vector<uint32_t> words_;
  int64_t offset_ = 0;  // of the word for key 0
};

float max_of(const float* x, Span span) {
  const F32 d;
  const int64_t lanes = hn::Lanes(d);
  auto max = hn::Set(d, -kInfinity);
  for (int64_t j = span.begin; j < span.end; j += lanes) max = hn::Max(max, hn::LoadU(d, x + j));
  return hn::GetLane(hn::MaxOfLanes(d, max));
}

// x = exp(x - max) after dropout; returns the sum before it.
float exponentials(float* x, Span span, float max, const Dropout& dropout) {
  const F32 d;
  const int64_t lanes = hn::Lanes(d);
  const auto shift = hn::Set(d, max);
  auto sum = hn::Zero(d);
  for (int64_t j = span.begin; j < span.end; j += lanes) {
    const auto p = exp_v(d, hn::Sub(hn::LoadU(d, x + j), shift));
    sum = hn::Add(sum, p);
    hn::StoreU(dropout.on() ? dropout.apply(p, j) : p, d, x + j);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

void scale_row(float* x, int64_t n, float factor) {
  for_lanes(n, [&](auto d, size_t i)
                   HWY_ATTR { hn::StoreU(hn::Mul(hn::Set(d, factor), hn::LoadU(d, x + i)), d, x + i); });
}

void softmax_step(const ScoreTile& tile, const SoftmaxState& state) {
  Dropout dropout(tile);
  for (int64_t r = 0; r < tile.row_count; ++r) {
    const ScoreRow& row = tile.rows[r];
    float* x = tile.scores + r * tile.ld;
    if (row.begin >= row.end) {
      std::fill(x, x + tile.key_count, 0.0f);
      continue;
    }
    const Span span = vectors_of(row);
    fill_hidden(tile, row, span, x, -kInfinity);
    if (tile.alibi) add_alibi(tile, row, x);
    dropout.start_row(row, span);
    const float max = std::max(state.max[r], max_of(x, span));
    const float sum = exponentials(x, span, max, dropout);
    if (max != state.max[r]) {
      const float correction = std::exp(state.max[r] - max);
      state.sum[r] *= correction;
      scale_row(state.out + r * state.out_ld, state.width, correction);
      state.max[r] = max;
    }
    state.sum[r] += sum;
  }
}

void finish_rows(int64_t rows, const SoftmaxState& state, float* lse) {
  for (int64_t r = 0; r < rows; ++r) {
    const bool seen = state.sum[r] != 0.0f;
    if (seen) scale_row(state.out + r * state.out_ld, state.width, 1.0f / state.sum[r]);
    if (lse) lse[r] = seen ? state.max[r] + std::log(state.sum[r]) : -kInfinity;
  }
}

void gradient_step(const ScoreTile& tile, float* dp, const float* lse, const float* delta) {
  const F32 d;
  const int64_t lanes = hn::Lanes(d);
  Dropout dropout(tile);
  for (int64_t r = 0; r < tile.row_count; ++r) {
    const ScoreRow& row = tile.rows[r];
    float* x = tile.scores + r * tile.ld;
    float* g = dp + r * tile.ld;
    if (row.begin >= row.end) {
      std::fill(x, x + tile.key_count, 0.0f);
      std::fill(g, g + tile.key_count, 0.0f);
      continue;
    }
    const Span span = vectors_of(row);
    fill_hidden(tile, row, span, x, -kInfinity);
    fill_hidden(tile, row, span, g, 0.0f);
    if (tile.alibi) add_alibi(tile, row, x);
    dropout.start_row(row, span);
    const auto shift = hn::Set(d, lse[r]), mean = hn::Set(d, delta[r]);
    for (int64_t j = span.begin; j < span.end; j += lanes) {
      const auto p = exp_v(d, hn::Sub(hn::LoadU(d, x + j), shift));
      auto gradient = hn::LoadU(d, g + j);
      hn::StoreU(dropout.on() ? dropout.apply(p, j) : p, d, x + j);
      if (dropout.on()) gradient = dropout.apply(gradient, j);
      hn::StoreU(hn::Mul(p, hn::Sub(gradient, mean)), d, g + j);
    }
  }
}

void dots(int64_t rows, int64_t width, const float* x, int64_t x_ld, const float* y, int64_t y_ld,
          float* out) {
  for (int64_t r = 0; r < rows; ++r) {
    const F32 d;
    const int64_t lanes = hn::Lanes(d);
    const float* a = x + r * x_ld;
    const float* b = y + r * y_ld;
    auto sums = hn::Zero(d);
    int64_t i = 0;
    for (; i + lanes <= width; i += lanes) sums = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sums);
    float sum = hn::GetLane(hn::SumOfLanes(d, sums));
    for (; i < width; ++i) sum += a[i] * b[i];
    out[r] = sum;
  }
}

bool finite_rows(int64_t rows, int64_t width, const float* x, int64_t ld) {
  bool finite = true;
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * ld;
    for_lanes(width, [&](auto d, size_t i)
                         HWY_ATTR { finite &= hn::AllTrue(d, hn::IsFinite(hn::LoadU(d, row + i))); });
  }
  return finite;
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {
HWY_EXPORT(softmax_step);
HWY_EXPORT(finish_rows);
HWY_EXPORT(gradient_step);
HWY_EXPORT(dots);
HWY_EXPORT(finite_rows);

void softmax_tile(const ScoreTile& tile, const SoftmaxState& state) {
  HWY_DYNAMIC_DISPATCH(softmax_step)(tile, state);
}

void softmax_finish(int64_t rows, const SoftmaxState& state, float* lse) {
  HWY_DYNAMIC_DISPATCH(finish_rows)(rows, state, lse);
}

void softmax_gradient_tile(const ScoreTile& tile, float* dp, const float* lse, const float* delta) {
  HWY_DYNAMIC_DISPATCH(gradient_step)(tile, dp, lse, delta);
}

void row_dots(int64_t rows, int64_t width, const float* x, int64_t x_ld, const float* y, int64_t y_ld,
              float* out) {
  HWY_DYNAMIC_DISPATCH(dots)(rows, width, x, x_ld, y, y_ld, out);
}

bool all_finite(int64_t rows, int64_t width, const float* x, int64_t ld) {
  return HWY_DYNAMIC_DISPATCH(finite_rows)(rows, width, x, ld);
}

}  // namespace plumb
#endif
