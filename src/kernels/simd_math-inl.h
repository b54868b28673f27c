// Vector loops and functions for kernels, built once per instruction set: include inside a file that
// Highway's foreach_target.h repeats, after hwy/highway.h. The functions take a tag and a vector of f32, any
// width. Their coefficients are least-squares rational fits, reweighted towards minimax, of relative error
// below 2.1e-8 before rounding.
#if defined(PLUMB_KERNELS_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLUMB_KERNELS_SIMD_MATH_INL_H_
#undef PLUMB_KERNELS_SIMD_MATH_INL_H_
#else
#define PLUMB_KERNELS_SIMD_MATH_INL_H_
#endif

#include <cstddef>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// body(d, i) for whole vectors of f32 at i, then for single lanes at the end: never reads past n.
template <class Body>
HWY_INLINE void for_lanes(size_t n, const Body& body) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) body(d, i);
  const hn::CappedTag<float, 1> one;
  for (; i < n; ++i) body(one, i);
}

// Sum in f64: step(d, i, acc) returns acc plus what the lanes at i add; d is a tag of f64. The order is
// fixed.
template <class Step>
HWY_INLINE double sum_lanes(size_t n, const Step& step) {
  const hn::ScalableTag<double> d;
  const size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = step(d, i, s0);
    s1 = step(d, i + lanes, s1);
    s2 = step(d, i + 2 * lanes, s2);
    s3 = step(d, i + 3 * lanes, s3);
  }
  for (; i + lanes <= n; i += lanes) s0 = step(d, i, s0);
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  const hn::CappedTag<double, 1> one;
  for (; i < n; ++i) sum += hn::GetLane(step(one, i, hn::Zero(one)));
  return sum;
}

// As many f32 as `d`, a tag of f64, has lanes; and the same widened.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<float, D>> load_narrow(D d, const float* p) {
  return hn::LoadU(hn::Rebind<float, D>(), p);
}
template <class D>
HWY_INLINE hn::Vec<D> load_wide(D d, const float* p) {
  return hn::PromoteTo(d, load_narrow(d, p));
}

// out = v, or out += v.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void store(D d, V v, float* out, bool add) {
  hn::StoreU(add ? hn::Add(v, hn::LoadU(d, out)) : v, d, out);
}

// e^x. Below -87.33 exactly 0, above 88.02 infinity, NaN for NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_v(D d, V x) {
  const V low = hn::Set(d, -87.33f), high = hn::Set(d, 89.0f);
  const V clamped = hn::Min(high, hn::Max(low, x));
  // Adding 1.5 * 2^23 + 127 rounds to an integer and leaves it, plus 127, in the low bits: the exponent of
  // 2^n.
  const V magic = hn::Set(d, 12583039.0f);
  const V shifted = hn::MulAdd(clamped, hn::Set(d, 1.44269504f), magic);
  const V n = hn::Sub(shifted, magic);
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(hn::RebindToSigned<D>(), shifted)));
  const V r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x));
  V q = hn::MulAdd(r, hn::Set(d, 1.374882306e-3f), hn::Set(d, 8.369628373e-3f));
  q = hn::MulAdd(q, r, hn::Set(d, 4.166964626e-2f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.1666651248f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.4999998791f));
  q = hn::Add(hn::MulAdd(q, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  return hn::IfThenZeroElse(hn::Lt(x, low), hn::Mul(q, power));
}

// r where |x| < limit, else the sign of x; never beyond 1 in size, NaN for NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V saturate(D d, V r, V x, float limit) {
  const V one = hn::Set(d, 1.0f);
  const V inside = hn::Min(hn::Max(r, hn::Neg(one)), one);
  const V y = hn::IfThenElse(hn::Ge(hn::Abs(x), hn::Set(d, limit)), hn::CopySign(one, x), inside);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh_v(D d, V x) {
  const V bound = hn::Set(d, 9.0f);
  const V c = hn::Min(bound, hn::Max(hn::Neg(bound), x));
  const V t = hn::Mul(c, c);
  V p = hn::MulAdd(t, hn::Set(d, 1.335510075e-8f), hn::Set(d, 2.060943528e-5f));
  p = hn::MulAdd(p, t, hn::Set(d, 3.495611228e-3f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.1338104568f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.9999999796f));
  V q = hn::MulAdd(t, hn::Set(d, 7.776748558e-7f), hn::Set(d, 3.285671414e-4f));
  q = hn::MulAdd(q, t, hn::Set(d, 2.587707188e-2f));
  q = hn::MulAdd(q, t, hn::Set(d, 0.4671436132f));
  q = hn::MulAdd(q, t, hn::Set(d, 1.0f));
  return saturate(d, hn::Div(hn::Mul(c, p), q), x, 9.0f);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V erf_v(D d, V x) {
  const V bound = hn::Set(d, 3.95f);
  const V c = hn::Min(bound, hn::Max(hn::Neg(bound), x));
  const V t = hn::Mul(c, c);
  V p = hn::MulAdd(t, hn::Set(d, 2.025938172e-6f), hn::Set(d, 2.846829395e-4f));
  p = hn::MulAdd(p, t, hn::Set(d, 3.807966984e-3f));
  p = hn::MulAdd(p, t, hn::Set(d, 5.28748506e-2f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.1915458342f));
  p = hn::MulAdd(p, t, hn::Set(d, 1.128379144f));
  V q = hn::MulAdd(t, hn::Set(d, 3.783186019e-5f), hn::Set(d, 1.17067766e-3f));
  q = hn::MulAdd(q, t, hn::Set(d, 1.505470279e-2f));
  q = hn::MulAdd(q, t, hn::Set(d, 0.1145577687f));
  q = hn::MulAdd(q, t, hn::Set(d, 0.503085753f));
  q = hn::MulAdd(q, t, hn::Set(d, 1.0f));
  return saturate(d, hn::Div(hn::Mul(c, p), q), x, 3.95f);
}

// 1 / (1 + e^-x)
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid_v(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, exp_v(d, hn::Neg(x))));
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#endif  // include guard
