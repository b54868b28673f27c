// Vector helpers that the kernels share, compiled once for each instruction set: include after
// hwy/foreach_target.h and hwy/highway.h, inside no namespace.
#if defined(PLUMB_KERNELS_SIMD_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PLUMB_KERNELS_SIMD_H
#undef PLUMB_KERNELS_SIMD_H
#else
#define PLUMB_KERNELS_SIMD_H
#endif

#include <hwy/highway.h>

#include "tensor/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using VecF32 = hn::Vec<F32>;

// f32 values rounded to the nearest bf16, ties to even; NaN stays NaN. The same as to_bf16().
template <class D, class V = hn::Vec<D>>
HWY_INLINE V round_to_bf16(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), odd);
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000u));
  const auto nan = hn::RebindMask(du, hn::IsNaN(x));
  return hn::BitCast(d, hn::And(hn::IfThenElse(nan, quiet, rounded), hn::Set(du, 0xffff0000u)));
}
HWY_INLINE VecF32 round_to_bf16(VecF32 x) {
  return round_to_bf16(F32(), x);
}

// Lanes of f32 into an array, as they are or rounded.
template <class D>
HWY_INLINE void store_as(D d, hn::Vec<D> x, float* p) {
  hn::StoreU(x, d, p);
}
template <class D>
HWY_INLINE void store_as(D d, hn::Vec<D> x, BFloat16* p) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> dh;
  const auto bits = hn::ShiftRight<16>(hn::BitCast(du, round_to_bf16(d, x)));
  hn::StoreU(hn::TruncateTo(dh, bits), dh, reinterpret_cast<uint16_t*>(p));
}

// A vector of stored numbers, widened.
HWY_INLINE VecF32 load_f32(const float* p) {
  return hn::LoadU(F32(), p);
}
HWY_INLINE VecF32 load_f32(const BFloat16* p) {
  const F32 d;
  const hn::RebindToUnsigned<F32> du;
  const hn::Rebind<uint16_t, F32> dh;
  const auto half = hn::LoadU(dh, reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, half)));
}
// By the processor's instruction where every processor of the target has one. Without it Highway 1.0 makes
// numbers of infinity and NaN.
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || (HWY_ARCH_ARM_A64 && HWY_TARGET <= HWY_NEON)
HWY_INLINE VecF32 load_f32(const Float16* p) {
  const hn::Rebind<hwy::float16_t, F32> dh;
  return hn::PromoteTo(F32(), hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(p)));
}
#else
HWY_INLINE VecF32 load_f32(const Float16* p) {
  const F32 d;
  const hn::RebindToUnsigned<F32> du;
  const hn::Rebind<uint16_t, F32> dh;
  const auto half = hn::PromoteTo(du, hn::LoadU(dh, reinterpret_cast<const uint16_t*>(p)));
  const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(du, 0x8000u)));
  const auto bits = hn::ShiftLeft<13>(hn::And(half, hn::Set(du, 0x7fffu)));
  const auto exponent = hn::And(bits, hn::Set(du, 0x1fu << 23));
  const auto bias = hn::Set(du, (127u - 15u) << 23);
  const auto normal = hn::Add(bits, bias);
  // 2^-14 and the bits of a subnormal behind its point, less the 2^-14.
  const auto least = hn::Set(du, (127u - 14u) << 23);
  const auto subnormal =
      hn::BitCast(du, hn::Sub(hn::BitCast(d, hn::Add(bits, least)), hn::BitCast(d, least)));
  const auto finite = hn::IfThenElse(hn::Eq(exponent, hn::Zero(du)), subnormal, normal);
  const auto special = hn::Eq(exponent, hn::Set(du, 0x1fu << 23));
  return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(special, hn::Add(normal, bias), finite)));
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#endif
