#include "base/check.h"
#include "kernels/elementwise.h"
#include "kernels/row_blocks.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/bound.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd.h"
#include "kernels/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {

void softcap_range(int64_t n, float cap, const float* x, float* y) {
  for_lanes(n, [&](auto d, size_t i) HWY_ATTR {
    const auto t = tanh_v(d, hn::Mul(hn::Set(d, 1 / cap), hn::LoadU(d, x + i)));
    hn::StoreU(hn::Mul(hn::Set(d, cap), t), d, y + i);
  });
}

void softcap_gradient_range(int64_t n, float cap, const float* x, const float* dy, float* dx, bool add) {
  for_lanes(n, [&](auto d, size_t i) HWY_ATTR {
    const auto t = tanh_v(d, hn::Mul(hn::Set(d, 1 / cap), hn::LoadU(d, x + i)));
    store(d, hn::Mul(hn::LoadU(d, dy + i), hn::NegMulAdd(t, t, hn::Set(d, 1.0f))), dx + i, add);
  });
}

// NaN stays NaN.
void clamp_range(int64_t n, float limit, const float* x, float* y) {
  for_lanes(n, [&](auto d, size_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i), most = hn::Set(d, limit);
    const auto bounded = hn::IfThenElse(hn::Gt(hn::Abs(v), most), hn::CopySign(most, v), v);
    hn::StoreU(bounded, d, y + i);
  });
}

void clamp_gradient_range(int64_t n, float limit, const float* x, const float* dy, float* dx, bool add) {
  for_lanes(n, [&](auto d, size_t i) HWY_ATTR {
    const auto outside = hn::Gt(hn::Abs(hn::LoadU(d, x + i)), hn::Set(d, limit));
    store(d, hn::IfThenZeroElse(outside, hn::LoadU(d, dy + i)), dx + i, add);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {
HWY_EXPORT(softcap_range);
HWY_EXPORT(softcap_gradient_range);
HWY_EXPORT(clamp_range);
HWY_EXPORT(clamp_gradient_range);

void softcap_forward(int64_t n, float cap, const float* x, float* y) {
  PLUMB_CHECK(cap > 0, "cap {}", cap);
  for_blocks(n, kBlockFloats, [&](int64_t, int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(softcap_range)(last - first, cap, x + first, y + first);
  });
}

void softcap_backward(int64_t n, float cap, const float* x, const float* dy, float* dx, bool add) {
  for_blocks(n, kBlockFloats, [&](int64_t, int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(softcap_gradient_range)(last - first, cap, x + first, dy + first, dx + first, add);
  });
}

void clamp_forward(int64_t n, float limit, const float* x, float* y) {
  PLUMB_CHECK(limit > 0, "limit {}", limit);
  for_blocks(n, kBlockFloats, [&](int64_t, int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(clamp_range)(last - first, limit, x + first, y + first);
  });
}

void clamp_backward(int64_t n, float limit, const float* x, const float* dy, float* dx, bool add) {
  for_blocks(n, kBlockFloats, [&](int64_t, int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(clamp_gradient_range)(last - first, limit, x + first, dy + first, dx + first, add);
  });
}

}  // namespace plumb
#endif  // HWY_ONCE
