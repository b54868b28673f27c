// Philox 4x32-10 (base/random.h) in vectors, built once per instruction set: include inside a file that
// Highway's foreach_target.h repeats, after hwy/highway.h.
#if defined(PLUMB_KERNELS_SIMD_RANDOM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLUMB_KERNELS_SIMD_RANDOM_INL_H_
#undef PLUMB_KERNELS_SIMD_RANDOM_INL_H_
#else
#define PLUMB_KERNELS_SIMD_RANDOM_INL_H_
#endif

#include <hwy/highway.h>

#include "base/random.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The high and low words of the 32 x 32 bit products.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void multiply_wide(D du, V a, uint32_t factor, V& high, V& low) {
#if HWY_TARGET == HWY_SCALAR  // has no wider lanes to go through
  const uint64_t product = static_cast<uint64_t>(hn::GetLane(a)) * factor;
  high = hn::Set(du, static_cast<uint32_t>(product >> 32));
  low = hn::Set(du, static_cast<uint32_t>(product));
#else
  const hn::RepartitionToWide<D> dw;
  const V f = hn::Set(du, factor);
  const auto even = hn::MulEven(a, f);
  const auto odd = hn::MulEven(hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(dw, a))), f);
  low = hn::OddEven(hn::BitCast(du, hn::ShiftLeft<32>(odd)), hn::BitCast(du, even));
  high = hn::OddEven(hn::BitCast(du, odd), hn::BitCast(du, hn::ShiftRight<32>(even)));
#endif
}

// words[4 * i + j] = random_block(key, first + i)[j] for i < blocks. Writes whole vectors: `words` has room
// for 4 * (blocks + Lanes) numbers.
inline void random_blocks(RandomKey key, uint64_t first, size_t blocks, uint32_t* words) {
  const hn::ScalableTag<uint32_t> du;
  using V = hn::Vec<decltype(du)>;
  const size_t lanes = hn::Lanes(du);
  for (size_t i = 0; i < blocks; i += lanes) {
    const uint64_t index = first + i;
    const V start = hn::Set(du, static_cast<uint32_t>(index));
    V c0 = hn::Add(start, hn::Iota(du, 0));
    V c1 = hn::Set(du, static_cast<uint32_t>(index >> 32));
    c1 = hn::IfThenElse(hn::Lt(c0, start), hn::Add(c1, hn::Set(du, 1u)), c1);  // the carry
    V c2 = hn::Set(du, static_cast<uint32_t>(key.stream)),
      c3 = hn::Set(du, static_cast<uint32_t>(key.stream >> 32));
    uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      V high0, low0, high1, low1;
      multiply_wide(du, c0, 0xD2511F53u, high0, low0);
      multiply_wide(du, c2, 0xCD9E8D57u, high1, low1);
      c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(du, k0));
      c1 = low1;
      c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(du, k1));
      c3 = low0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    hn::StoreInterleaved4(c0, c1, c2, c3, du, words + 4 * i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#endif  // include guard
