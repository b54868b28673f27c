#include "kernels/norm.h"

#include <cmath>

#include "base/check.h"
#include "kernels/row_blocks.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_math-inl.h"

#ifndef PLUMB_KERNELS_NORM_ONCE
#define PLUMB_KERNELS_NORM_ONCE
namespace plumb {

// The parameters as the loops use them, each (C) and with the constants multiplied in.
struct NormScales {
  const float* gain;  // scale * (gain_offset + gain)
  const float* bias;  // scale * bias
  const float* gate;  // g
};

// Sums over rows: which of ColumnSums.
enum NormSum { kGainSum, kBiasSum, kGateSum, kNormSums };

}  // namespace plumb
#endif

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {

// xhat = ((x * k - high) - low) * r, in f32: the mean is high + low, so that what it loses beside a small
// spread is kept, and k is a power of two that keeps rows near the range of f32 from overflowing in the
// difference.
struct Normaliser {
  float k, high, low, r;

  Normaliser(double mean, double rstd) {
    const double scale = rstd < 1e-30 ? 0x1p-64 : 1.0;
    k = static_cast<float>(scale);
    high = static_cast<float>(mean * scale);
    low = static_cast<float>(mean * scale - high);
    r = static_cast<float>(rstd / scale);
  }
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D d, V x) const {
    const V centred = hn::Sub(hn::MulSub(x, hn::Set(d, k), hn::Set(d, high)), hn::Set(d, low));
    return hn::Mul(centred, hn::Set(d, r));
  }
};

// Mean and 1 / deviation of a row; `square` is its sum of squares, `sum` its sum.
void row_stats(const NormForward& a, const float* row, double sum, double square, double* stats) {
  const double width = static_cast<double>(a.width);
  switch (a.kind) {
    case RowNorm::layer: {
      const double mean = sum / width;
      const double centred = sum_lanes(a.width, [&](auto d, size_t i, auto acc) HWY_ATTR {
        const auto v = hn::Sub(load_wide(d, row + i), hn::Set(d, mean));
        return hn::MulAdd(v, v, acc);
      });
      stats[0] = mean;
      stats[1] = 1.0 / std::sqrt(centred / width + a.eps);
      return;
    }
    case RowNorm::rms:
      stats[0] = 0;
      stats[1] = 1.0 / std::sqrt(square / width + a.eps);
      return;
    case RowNorm::scale:
      stats[0] = 0;
      stats[1] = 1.0 / std::max(std::sqrt(square), static_cast<double>(a.eps));
      return;
  }
}

void norm_forward_rows(const NormForward& a, const NormScales& s, int64_t first, int64_t last) {
  const bool centred = a.kind == RowNorm::layer;
  const auto collect = [&](auto d, auto v, auto acc) HWY_ATTR {
    const auto wide = hn::PromoteTo(d, v);
    return centred ? hn::Add(acc, wide) : hn::MulAdd(wide, wide, acc);
  };
  for (int64_t n = first; n < last; ++n) {
    const float* x = a.x + n * a.width;
    const float* row = x;
    double total;
    if (a.branch) {
      const float* branch = a.branch + n * a.width;
      float* sum = a.sum + n * a.width;
      total = sum_lanes(a.width, [&](auto d, size_t i, auto acc) HWY_ATTR {
        const hn::Rebind<float, decltype(d)> df;
        const auto g = hn::Mul(hn::LoadU(df, s.gate + i), hn::LoadU(df, branch + i));
        const auto v = hn::MulAdd(hn::Set(df, a.alpha), hn::LoadU(df, x + i), g);
        hn::StoreU(v, df, sum + i);
        return collect(d, v, acc);
      });
      row = sum;
    } else {
      total = sum_lanes(a.width, [&](auto d, size_t i, auto acc)
                                     HWY_ATTR { return collect(d, load_narrow(d, row + i), acc); });
    }
    double stats[2];
    row_stats(a, row, total, total, stats);
    if (a.stats) std::copy(stats, stats + 2, a.stats + 2 * n);
    float* y = a.y + n * a.width;
    const Normaliser normalise(stats[0], stats[1]);
    for_lanes(a.width, [&](auto d, size_t i) HWY_ATTR {
      const auto xhat = normalise(d, hn::LoadU(d, row + i));
      hn::StoreU(hn::MulAdd(xhat, hn::LoadU(d, s.gain + i), hn::LoadU(d, s.bias + i)), d, y + i);
    });
  }
}

// With h = dy * gain: dx = r * (h - mean(h) - xhat * mean(h * xhat)) for layer; rms has no mean(h); scale has
// the sum in place of the second mean, and no such term where the floor took the place of the length.
struct RowTerms {
  float mean_h = 0, mean_hx = 0, r = 0;
};

RowTerms backward_terms(const NormBackward& a, const NormScales& s, int64_t n, const Normaliser& normalise,
                        float* gain_sum, float* bias_sum) {
  const float* dy = a.dy + n * a.width;
  const float* x = a.sum + n * a.width;
  const hn::ScalableTag<float> full;
  const hn::CappedTag<float, 1> one;
  auto h_sum = hn::Zero(full), hx_sum = hn::Zero(full);
  auto h_tail = hn::Zero(one), hx_tail = hn::Zero(one);
  const auto step = [&](auto d, size_t i, auto& h_acc, auto& hx_acc) HWY_ATTR {
    const auto g = hn::LoadU(d, dy + i);
    const auto xhat = normalise(d, hn::LoadU(d, x + i));
    const auto h = hn::Mul(g, hn::LoadU(d, s.gain + i));
    h_acc = hn::Add(h_acc, h);
    hx_acc = hn::MulAdd(h, xhat, hx_acc);
    if (gain_sum) hn::StoreU(hn::MulAdd(g, xhat, hn::LoadU(d, gain_sum + i)), d, gain_sum + i);
    if (bias_sum) hn::StoreU(hn::Add(g, hn::LoadU(d, bias_sum + i)), d, bias_sum + i);
  };
  const size_t lanes = hn::Lanes(full), width = static_cast<size_t>(a.width);
  size_t i = 0;
  for (; i + lanes <= width; i += lanes) step(full, i, h_sum, hx_sum);
  for (; i < width; ++i) step(one, i, h_tail, hx_tail);
  const float h = hn::GetLane(hn::SumOfLanes(full, h_sum)) + hn::GetLane(h_tail);
  const float hx = hn::GetLane(hn::SumOfLanes(full, hx_sum)) + hn::GetLane(hx_tail);
  const float over_width = 1.0f / static_cast<float>(a.width);
  const double rstd = a.stats[2 * n + 1];
  RowTerms t;
  t.r = static_cast<float>(rstd);
  if (a.kind == RowNorm::layer) t.mean_h = h * over_width;
  const bool floored = a.kind == RowNorm::scale && rstd >= 1.0 / static_cast<double>(a.eps);
  if (!floored) t.mean_hx = a.kind == RowNorm::scale ? hx : hx * over_width;
  return t;
}

void norm_backward_rows(const NormBackward& a, const NormScales& s, const ColumnSums& sums, int64_t block,
                        int64_t first, int64_t last) {
  float* gain_sum = a.dgain ? sums.cleared_partial(block, kGainSum) : nullptr;
  float* bias_sum = a.dbias ? sums.cleared_partial(block, kBiasSum) : nullptr;
  float* gate_sum = a.dgate ? sums.cleared_partial(block, kGateSum) : nullptr;
  for (int64_t n = first; n < last; ++n) {
    const Normaliser normalise(a.stats[2 * n], a.stats[2 * n + 1]);
    const RowTerms t = backward_terms(a, s, n, normalise, gain_sum, bias_sum);
    const int64_t at = n * a.width;
    for_lanes(a.width, [&](auto d, size_t i) HWY_ATTR {
      const auto h = hn::Mul(hn::LoadU(d, a.dy + at + i), hn::LoadU(d, s.gain + i));
      const auto xhat = normalise(d, hn::LoadU(d, a.sum + at + i));
      const auto inner = hn::NegMulAdd(xhat, hn::Set(d, t.mean_hx), hn::Sub(h, hn::Set(d, t.mean_h)));
      auto total = hn::Mul(inner, hn::Set(d, t.r));
      if (a.dsum) total = hn::Add(total, hn::LoadU(d, a.dsum + at + i));
      if (gate_sum) {
        const auto branch = hn::LoadU(d, a.branch + at + i);
        hn::StoreU(hn::MulAdd(total, branch, hn::LoadU(d, gate_sum + i)), d, gate_sum + i);
      }
      if (a.d_stream) store(d, hn::Mul(total, hn::Set(d, a.alpha)), a.d_stream + at + i, a.add_stream);
      if (a.d_branch) store(d, hn::Mul(total, hn::LoadU(d, s.gate + i)), a.d_branch + at + i, a.add_branch);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {

HWY_EXPORT(norm_forward_rows);
HWY_EXPORT(norm_backward_rows);

namespace {

// What forward and backward share of their arguments.
template <class A>
NormScales norm_scales(const A& a, const float* bias, const Scratch& scratch) {
  float* gain_out = scratch.data();
  float* bias_out = gain_out + a.width;
  float* gate_out = bias_out + a.width;
  for (int64_t c = 0; c < a.width; ++c) {
    const float gain = !a.gain ? 1.0f : a.kind == RowNorm::scale ? a.gain[0] : a.gain_offset + a.gain[c];
    gain_out[c] = a.scale * gain;
    bias_out[c] = bias ? a.scale * bias[c] : 0.0f;
  }
  a.gate.fill(a.width, gate_out);
  return {gain_out, bias_out, gate_out};
}

template <class A>
void check_norm(const A& a) {
  PLUMB_CHECK(a.rows >= 0 && a.width > 0, "{} rows of {}", a.rows, a.width);
  PLUMB_CHECK(a.eps > 0, "eps {}", a.eps);
}

}  // namespace

void norm_forward(const NormForward& a) {
  check_norm(a);
  PLUMB_CHECK(!a.branch == !a.sum, "a sum is written where there is a branch");
  PLUMB_CHECK(a.kind != RowNorm::scale || !a.bias, "ScaleNorm has no bias");
  const Scratch scratch(3 * a.width);
  const NormScales scales = norm_scales(a, a.bias, scratch);
  for_blocks(a.rows, rows_per_block(a.width), [&](int64_t, int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(norm_forward_rows)(a, scales, first, last);
  });
}

void norm_backward(const NormBackward& a) {
  check_norm(a);
  PLUMB_CHECK(!a.dgate || a.branch, "the gate's gradient needs the branch");
  PLUMB_CHECK(a.d_stream != a.d_branch || !a.d_stream, "two outputs in one array");
  const Scratch scratch(3 * a.width);
  const NormScales scales = norm_scales(a, nullptr, scratch);
  const ColumnSums sums(a.rows, a.width, kNormSums);
  for_blocks(a.rows, kBlockRows, [&](int64_t block, int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(norm_backward_rows)(a, scales, sums, block, first, last);
  });
  if (a.dgain && a.kind == RowNorm::scale) sums.finish_scalar(kGainSum, a.dgain, a.add_gain, a.scale);
  if (a.dgain && a.kind != RowNorm::scale) sums.finish(kGainSum, a.dgain, a.add_gain, a.scale);
  if (a.dbias) sums.finish(kBiasSum, a.dbias, a.add_bias, a.scale);
  if (a.dgate && a.gate.per_column) sums.finish(kGateSum, a.dgate, a.add_gate);
  if (a.dgate && !a.gate.per_column) sums.finish_scalar(kGateSum, a.dgate, a.add_gate);
}

}  // namespace plumb
#endif  // HWY_ONCE
