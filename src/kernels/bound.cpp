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

void clamp_range(int64_t n, Clamp by, const float* x, float* y) {
  for_lanes(n, [&](auto d, size_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i), low = hn::Set(d, by.low), high = hn::Set(d, by.high);
    const auto raised = hn::IfThenElse(hn::Lt(v, low), low, v);
    const auto inside = hn::IfThenElse(hn::Gt(v, high), high, raised);
    hn::StoreU(hn::Add(inside, hn::Set(d, by.offset)), d, y + i);
  });
}

void clamp_gradient_range(int64_t n, Clamp by, const float* x, const float* dy, float* dx, bool add) {
  for_lanes(n, [&](auto d, size_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    const auto inside = hn::And(hn::Ge(v, hn::Set(d, by.low)), hn::Le(v, hn::Set(d, by.high)));
    store(d, hn::IfThenElseZero(inside, hn::LoadU(d, dy + i)), dx + i, add);
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

void clamp_forward(int64_t n, Clamp by, const float* x, float* y) {
  for_blocks(n, kBlockFloats, [&](int64_t, int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(clamp_range)(last - first, by, x + first, y + first);
  });
}

void clamp_backward(int64_t n, Clamp by, const float* x, const float* dy, float* dx, bool add) {
  for_blocks(n, kBlockFloats, [&](int64_t, int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(clamp_gradient_range)(last - first, by, x + first, dy + first, dx + first, add);
  });
}

}  // namespace plumb
#endif  // HWY_ONCE
