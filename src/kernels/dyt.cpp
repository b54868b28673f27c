#include "base/check.h"
#include "kernels/norm.h"
#include "kernels/row_blocks.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dyt.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {

void dyt_forward_row(const DytForward& a, int64_t n) {
  for_lanes(a.width, [&](auto d, size_t i) HWY_ATTR {
    auto y = tanh_v(d, hn::Mul(hn::Set(d, *a.alpha), hn::LoadU(d, a.x + n * a.width + i)));
    if (a.gain) y = hn::Mul(y, hn::LoadU(d, a.gain + i));
    if (a.bias) y = hn::Add(y, hn::LoadU(d, a.bias + i));
    hn::StoreU(y, d, a.y + n * a.width + i);
  });
}

// The columns' sums for alpha, gain and bias; each may be null.
void dyt_backward_row(const DytBackward& a, int64_t n, float* alpha_sum, float* gain_sum, float* bias_sum) {
  for_lanes(a.width, [&](auto d, size_t i) HWY_ATTR {
    const size_t at = n * a.width + i;
    const auto x = hn::LoadU(d, a.x + at), dy = hn::LoadU(d, a.dy + at);
    const auto t = tanh_v(d, hn::Mul(hn::Set(d, *a.alpha), x));
    const auto h = a.gain ? hn::Mul(dy, hn::LoadU(d, a.gain + i)) : dy;
    const auto inner = hn::Mul(h, hn::NegMulAdd(t, t, hn::Set(d, 1.0f)));
    if (alpha_sum) store(d, hn::Mul(inner, x), alpha_sum + i, true);
    if (gain_sum) store(d, hn::Mul(dy, t), gain_sum + i, true);
    if (bias_sum) store(d, dy, bias_sum + i, true);
    if (a.dx) store(d, hn::Mul(inner, hn::Set(d, *a.alpha)), a.dx + at, a.add_x);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {

HWY_EXPORT(dyt_forward_row);
HWY_EXPORT(dyt_backward_row);

void dyt_forward(const DytForward& a) {
  PLUMB_CHECK(a.rows >= 0 && a.width > 0, "{} rows of {}", a.rows, a.width);
  for_blocks(a.rows, rows_per_block(a.width), [&](int64_t, int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n) HWY_DYNAMIC_DISPATCH(dyt_forward_row)(a, n);
  });
}

void dyt_backward(const DytBackward& a) {
  PLUMB_CHECK(a.rows >= 0 && a.width > 0, "{} rows of {}", a.rows, a.width);
  enum { kAlpha, kGain, kBias, kSums };
  const ColumnSums sums(a.rows, a.width, kSums);
  for_blocks(a.rows, kBlockRows, [&](int64_t block, int64_t first, int64_t last) {
    float* alpha_sum = a.dalpha ? sums.cleared_partial(block, kAlpha) : nullptr;
    float* gain_sum = a.dgain ? sums.cleared_partial(block, kGain) : nullptr;
    float* bias_sum = a.dbias ? sums.cleared_partial(block, kBias) : nullptr;
    for (int64_t n = first; n < last; ++n) {
      HWY_DYNAMIC_DISPATCH(dyt_backward_row)(a, n, alpha_sum, gain_sum, bias_sum);
    }
  });
  if (a.dalpha) sums.finish_scalar(kAlpha, a.dalpha, a.add_alpha);
  if (a.dgain) sums.finish(kGain, a.dgain, a.add_gain);
  if (a.dbias) sums.finish(kBias, a.dbias, a.add_bias);
}

}  // namespace plumb
#endif  // HWY_ONCE
