#include "kernels/optimizer.h"

#include <cmath>

#include "base/check.h"
#include "kernels/row_blocks.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optimizer.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {

// Denormal numbers become 0: a moment that no gradient feeds decays into them, where processors are slow.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V flush(D d, V v) {
  return hn::IfThenZeroElse(hn::Lt(hn::Abs(v), hn::Set(d, 1.17549435e-38f)), v);
}

// Writes the new value to p[at], the update to update[at] where that is wanted, and returns acc + (new -
// old)^2.
struct Moved {
  float* p;
  float* update;
  size_t at;
};
template <class D, class VF, class V>
HWY_INLINE V move_to(D d, VF before, VF after, const Moved& to, V acc) {
  const hn::Rebind<float, D> df;
  hn::StoreU(after, df, to.p + to.at);
  if (to.update) hn::StoreU(hn::Sub(after, before), df, to.update + to.at);
  const V change = hn::Sub(hn::PromoteTo(d, after), hn::PromoteTo(d, before));
  return hn::MulAdd(change, change, acc);
}

double adamw_range(const AdamW& a, int64_t first, int64_t last) {
  const double t = static_cast<double>(a.step);
  const float beta1 = static_cast<float>(a.beta1), rest1 = static_cast<float>(1 - a.beta1);
  const float beta2 = static_cast<float>(a.beta2), rest2 = static_cast<float>(1 - a.beta2);
  const float keep = static_cast<float>(1 - a.lr * a.weight_decay);
  const float step = static_cast<float>(a.lr / (1 - std::pow(a.beta1, t)));
  const float unbias = static_cast<float>(1 / std::sqrt(1 - std::pow(a.beta2, t)));
  const float eps = static_cast<float>(a.eps), scale = static_cast<float>(a.gradient_scale);
  return sum_lanes(last - first, [&](auto d, size_t i, auto acc) HWY_ATTR {
    const hn::Rebind<float, decltype(d)> df;
    const size_t at = first + i;
    const auto g = hn::Mul(hn::LoadU(df, a.g + at), hn::Set(df, scale));
    const auto p = hn::LoadU(df, a.p + at);
    const auto old_m = hn::Mul(hn::LoadU(df, a.m + at), hn::Set(df, beta1));
    const auto old_v = hn::Mul(hn::LoadU(df, a.v + at), hn::Set(df, beta2));
    const auto m = flush(df, hn::MulAdd(g, hn::Set(df, rest1), old_m));
    const auto v = flush(df, hn::MulAdd(hn::Mul(g, g), hn::Set(df, rest2), old_v));
    hn::StoreU(m, df, a.m + at);
    hn::StoreU(v, df, a.v + at);
    const auto deviation = hn::MulAdd(hn::Sqrt(v), hn::Set(df, unbias), hn::Set(df, eps));
    const auto move = hn::Div(hn::Mul(m, hn::Set(df, step)), deviation);
    return move_to(d, p, hn::MulSub(p, hn::Set(df, keep), move), {a.p, a.update, at}, acc);
  });
}

double sgd_range(const Sgd& a, int64_t first, int64_t last) {
  const float lr = static_cast<float>(a.lr), momentum = static_cast<float>(a.momentum);
  const float decay = static_cast<float>(a.weight_decay), scale = static_cast<float>(a.gradient_scale);
  return sum_lanes(last - first, [&](auto d, size_t i, auto acc) HWY_ATTR {
    const hn::Rebind<float, decltype(d)> df;
    const size_t at = first + i;
    const auto p = hn::LoadU(df, a.p + at);
    const auto g = hn::MulAdd(p, hn::Set(df, decay), hn::Mul(hn::LoadU(df, a.g + at), hn::Set(df, scale)));
    auto direction = g;
    if (a.u) {
      const auto u = flush(df, hn::MulAdd(hn::LoadU(df, a.u + at), hn::Set(df, momentum), g));
      hn::StoreU(u, df, a.u + at);
      direction = a.nesterov ? hn::MulAdd(u, hn::Set(df, momentum), g) : u;
    }
    return move_to(d, p, hn::NegMulAdd(direction, hn::Set(df, lr), p), {a.p, a.update, at}, acc);
  });
}

void muon_momentum_range(const MuonMomentum& a, int64_t first, int64_t last) {
  const float momentum = static_cast<float>(a.momentum), scale = static_cast<float>(a.gradient_scale);
  for_lanes(last - first, [&](auto d, size_t i) HWY_ATTR {
    const size_t at = first + i;
    const auto g = hn::Mul(hn::LoadU(d, a.g + at), hn::Set(d, scale));
    const auto u = flush(d, hn::MulAdd(hn::LoadU(d, a.u + at), hn::Set(d, momentum), g));
    hn::StoreU(u, d, a.u + at);
    hn::StoreU(a.nesterov ? hn::MulAdd(u, hn::Set(d, momentum), g) : u, d, a.out + at);
  });
}

double decayed_step_range(const DecayedStep& a, int64_t first, int64_t last) {
  const float decay = static_cast<float>(a.decay), step = static_cast<float>(a.step);
  return sum_lanes(last - first, [&](auto d, size_t i, auto acc) HWY_ATTR {
    const hn::Rebind<float, decltype(d)> df;
    const size_t at = first + i;
    const auto p = hn::LoadU(df, a.p + at);
    const auto move = hn::Mul(hn::LoadU(df, a.direction + at), hn::Set(df, step));
    return move_to(d, p, hn::MulSub(p, hn::Set(df, decay), move), {a.p, a.update, at}, acc);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {

HWY_EXPORT(adamw_range);
HWY_EXPORT(sgd_range);
HWY_EXPORT(muon_momentum_range);
HWY_EXPORT(decayed_step_range);

double adamw_step(const AdamW& a) {
  PLUMB_CHECK(a.step >= 1, "step {}", a.step);
  return sum_of_blocks(
      a.n, [&](int64_t first, int64_t last) { return HWY_DYNAMIC_DISPATCH(adamw_range)(a, first, last); });
}

double sgd_step(const Sgd& a) {
  PLUMB_CHECK(a.u || a.momentum == 0, "momentum {} without its array", a.momentum);
  return sum_of_blocks(
      a.n, [&](int64_t first, int64_t last) { return HWY_DYNAMIC_DISPATCH(sgd_range)(a, first, last); });
}

void muon_momentum(const MuonMomentum& a) {
  for_blocks(a.n, kBlockFloats, [&](int64_t, int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(muon_momentum_range)(a, first, last);
  });
}

double decayed_step(const DecayedStep& a) {
  return sum_of_blocks(a.n, [&](int64_t first, int64_t last) {
    return HWY_DYNAMIC_DISPATCH(decayed_step_range)(a, first, last);
  });
}

}  // namespace plumb
#endif  // HWY_ONCE
