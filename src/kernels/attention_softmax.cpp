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
Interval vectors_of(Interval seen) {
  const int64_t lanes = hn::Lanes(F32());
  return {seen.begin / lanes * lanes, (seen.end + lanes - 1) / lanes * lanes};
}

// `hidden` beside the visible ones in their vectors, so that the loops below need no masks.
void fill_hidden(Interval seen, Interval span, float* x, float hidden) {
  std::fill(x + span.begin, x + seen.begin, hidden);
  std::fill(x + seen.end, x + span.end, hidden);
}

void add_alibi(const ScoreTile& tile, int64_t r, float* x) {
  const ScoreRow& row = tile.rows[r];
  const Interval seen = tile.seen[r];
  if (tile.slots) {
    for (int64_t j = seen.begin; j < seen.end; ++j) {
      x[j] -= row.alibi_slope * static_cast<float>(std::abs(row.query_slot - tile.slots[j]));
    }
    return;
  }
  const auto nearest = static_cast<float>(tile.first_slot + seen.begin - row.query_slot);
  for_lanes(seen.size(), [&](auto d, size_t i) HWY_ATTR {
    const auto distance = hn::Abs(hn::Add(hn::Set(d, nearest), hn::Iota(d, static_cast<float>(i))));
    float* p = x + seen.begin + i;
    hn::StoreU(hn::NegMulAdd(hn::Set(d, row.alibi_slope), distance, hn::LoadU(d, p)), d, p);
  });
}

// Whole vectors, before what is hidden is filled in.
void cap_scores(const ScoreTile& tile, float* x, Interval span) {
  const F32 d;
  const int64_t lanes = hn::Lanes(d);
  const auto cap = hn::Set(d, tile.softcap), inverse = hn::Set(d, 1 / tile.softcap);
  for (int64_t j = span.begin; j < span.end; j += lanes) {
    hn::StoreU(hn::Mul(cap, tanh_v(d, hn::Mul(inverse, hn::LoadU(d, x + j)))), d, x + j);
  }
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
  void start_row(int64_t r, Interval span) {
    if (!on()) return;
    const ScoreRow& row = tile_.rows[r];
    if (!tile_.slots) {
      const uint64_t first = row.first_pair + tile_.first_slot + span.begin;
      random_blocks(tile_.dropout_key, first / 4, (span.end - span.begin + 6) / 4, words_.data());
      offset_ = static_cast<int64_t>(first % 4) - span.begin;
      return;
    }
    for (int64_t j = tile_.seen[r].begin; j < tile_.seen[r].end; ++j) {
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

float max_of(const float* x, Interval span) {
  const F32 d;
  const int64_t lanes = hn::Lanes(d);
  auto max = hn::Set(d, -kInfinity), max1 = max, max2 = max, max3 = max;  // which do not wait for each other
  int64_t j = span.begin;
  for (; j + 4 * lanes <= span.end; j += 4 * lanes) {
    max = hn::Max(max, hn::LoadU(d, x + j));
    max1 = hn::Max(max1, hn::LoadU(d, x + j + lanes));
    max2 = hn::Max(max2, hn::LoadU(d, x + j + 2 * lanes));
    max3 = hn::Max(max3, hn::LoadU(d, x + j + 3 * lanes));
  }
  for (; j < span.end; j += lanes) max = hn::Max(max, hn::LoadU(d, x + j));
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(max, max1), hn::Max(max2, max3))));
}

// x = exp(x - max) after dropout; returns the sum before it.
float exponentials(float* x, Interval span, float max, const Dropout& dropout) {
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
    if (tile.seen[r].empty()) continue;
    float* x = tile.scores + r * tile.ld;
    const Interval span = vectors_of(tile.seen[r]);
    if (tile.softcap > 0) cap_scores(tile, x, span);
    fill_hidden(tile.seen[r], span, x, -kInfinity);
    if (tile.alibi) add_alibi(tile, r, x);
    dropout.start_row(r, span);
    const float max = std::max(state.max[r], max_of(x, span));
    const float sum = exponentials(x, span, max, dropout);
    if (max != state.max[r]) {
      if (state.sum[r] != 0.0f) {
        const float correction = std::exp(state.max[r] - max);
        state.sum[r] *= correction;
        scale_row(state.out + r * state.out_ld, state.width, correction);
      }
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
    if (tile.seen[r].empty()) continue;
    float* x = tile.scores + r * tile.ld;
    float* g = dp + r * tile.ld;
    const Interval span = vectors_of(tile.seen[r]);
    if (tile.softcap > 0) cap_scores(tile, x, span);
    fill_hidden(tile.seen[r], span, x, -kInfinity);
    fill_hidden(tile.seen[r], span, g, 0.0f);
    if (tile.alibi) add_alibi(tile, r, x);
    dropout.start_row(r, span);
    const auto shift = hn::Set(d, lse[r]), mean = hn::Set(d, delta[r]), one = hn::Set(d, 1.0f);
    const auto inverse = hn::Set(d, tile.softcap > 0 ? 1 / tile.softcap : 0.0f);
    for (int64_t j = span.begin; j < span.end; j += lanes) {
      const auto score = hn::LoadU(d, x + j);
      const auto p = exp_v(d, hn::Sub(score, shift));
      auto gradient = hn::LoadU(d, g + j);
      hn::StoreU(dropout.on() ? dropout.apply(p, j) : p, d, x + j);
      if (dropout.on()) gradient = dropout.apply(gradient, j);
      auto dscore = hn::Mul(p, hn::Sub(gradient, mean));
      if (tile.softcap > 0) {  // hidden scores are -inf, with p = 0
        const auto t = hn::Max(hn::Mul(score, inverse), hn::Neg(one));
        dscore = hn::Mul(dscore, hn::NegMulAdd(t, t, one));
      }
      hn::StoreU(dscore, d, g + j);
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

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {
HWY_EXPORT(softmax_step);
HWY_EXPORT(finish_rows);
HWY_EXPORT(gradient_step);
HWY_EXPORT(dots);

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

}  // namespace plumb
#endif
