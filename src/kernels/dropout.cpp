#include <cmath>

#include "base/check.h"
#include "kernels/elementwise.h"
#include "kernels/row_blocks.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dropout.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {

using U32 = hn::ScalableTag<uint32_t>;
using VecU32 = hn::Vec<U32>;

#if HWY_TARGET == HWY_SCALAR
constexpr int64_t kBlocksAtOnce = 1;
void random_words(RandomKey key, uint64_t index, uint32_t* words) {
  const auto block = random_block(key, index);
  for (int i = 0; i < 4; ++i) words[i] = block[i];
}
#else
constexpr int64_t kBlocksAtOnce = HWY_MAX_BYTES / 4;

// a * b of each lane, in two halves.
HWY_INLINE void multiply_wide(VecU32 a, VecU32 b, VecU32& high, VecU32& low) {
  const U32 d;
  const hn::Repartition<uint64_t, U32> wide;
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), b);
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
}

// random_block of kBlocksAtOnce indices from `index` on, which is a multiple of it: four words of each, in
// order.
void random_words(RandomKey key, uint64_t index, uint32_t* words) {
  const U32 d;
  const int64_t lanes = hn::Lanes(d);
  for (int64_t at = 0; at < kBlocksAtOnce; at += lanes) {
    auto c0 = hn::Iota(d, static_cast<uint32_t>(index + at));
    auto c1 = hn::Set(d, static_cast<uint32_t>((index + at) >> 32));
    auto c2 = hn::Set(d, static_cast<uint32_t>(key.stream));
    auto c3 = hn::Set(d, static_cast<uint32_t>(key.stream >> 32));
    uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      VecU32 high0, low0, high1, low1;
      multiply_wide(c0, hn::Set(d, 0xD2511F53u), high0, low0);
      multiply_wide(c2, hn::Set(d, 0xCD9E8D57u), high1, low1);
      c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, k0));
      c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, k1));
      c1 = low1;
      c3 = low0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    hn::StoreInterleaved4(c0, c1, c2, c3, d, words + 4 * at);
  }
}
#endif

// Elements [first, last); first is a multiple of 4 * kBlocksAtOnce.
void dropout_range(const Dropout& a, int64_t first, int64_t last) {
  const uint32_t threshold = static_cast<uint32_t>(std::ldexp(static_cast<double>(a.p), 32));
  const float factor = 1.0f / (1.0f - a.p);
  uint32_t words[4 * kBlocksAtOnce];
  for (int64_t at = first; at < last; at += 4 * kBlocksAtOnce) {
    random_words(a.key, static_cast<uint64_t>(at / 4), words);
    for_lanes(std::min<int64_t>(last - at, 4 * kBlocksAtOnce), [&](auto d, size_t i) HWY_ATTR {
      const hn::RebindToUnsigned<decltype(d)> du;
      const auto dropped = hn::RebindMask(d, hn::Lt(hn::LoadU(du, words + i), hn::Set(du, threshold)));
      const auto scaled = hn::Mul(hn::LoadU(d, a.x + at + i), hn::Set(d, factor));
      store(d, hn::IfThenZeroElse(dropped, scaled), a.y + at + i, a.add);
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {

HWY_EXPORT(dropout_range);

void dropout(const Dropout& a) {
  PLUMB_CHECK(a.p >= 0 && a.p < 1, "dropout {}", a.p);
  for_blocks(a.n, kBlockFloats, [&](int64_t, int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(dropout_range)(a, first, last);
  });
}

}  // namespace plumb
#endif  // HWY_ONCE
