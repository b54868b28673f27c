#include "kernels/pack.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pack.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {

using U32 = hn::ScalableTag<uint32_t>;

// Tiles are kTerms of the sum by the layout's panel, or kColumns. A pair is two terms of one column in 32
// bits, the earlier one in the lower half.
constexpr int64_t kTerms = 32, kPairs = kTerms / 2, kColumns = 64;

template <class T>
HWY_INLINE hn::Vec<U32> rounded_bits(const T* p) {
  const VecF32 x = load_f32(p);
  return hn::BitCast(U32(), std::is_same_v<T, float> ? round_to_bf16(x) : x);
}

HWY_INLINE hn::Vec<U32> pairs_of(hn::Vec<U32> even, hn::Vec<U32> odd) {
  return hn::Or(odd, hn::ShiftRight<16>(even));
}

// What follows writes pairs to rows of bf16 that are dst_ld apart, at any address.
template <class D>
HWY_INLINE void store_pairs(hn::Vec<D> pairs, D d, BFloat16* dst) {
#if HWY_TARGET == HWY_SCALAR
  dst[0].bits = static_cast<uint16_t>(hn::GetLane(pairs));
  dst[1].bits = static_cast<uint16_t>(hn::GetLane(pairs) >> 16);
#else
  hn::StoreU(pairs, d, reinterpret_cast<uint32_t*>(dst));
#endif
}

// (kPairs, columns, 2) from a source of (kTerms, columns).
template <class T>
HWY_INLINE void pair_rows(const T* src, int64_t ld, int64_t columns, BFloat16* dst, int64_t dst_ld) {
  const U32 d;
  const int64_t lanes = hn::Lanes(d);
  for (int64_t p = 0; p < kPairs; ++p) {
    const T* even = src + 2 * p * ld;
    for (int64_t j = 0; j < columns; j += lanes)
      store_pairs(pairs_of(rounded_bits(even + j), rounded_bits(even + ld + j)), d, dst + p * dst_ld + 2 * j);
  }
}

// (columns, kTerms) from a source of the same.
template <class T>
HWY_INLINE void pair_columns(const T* src, int64_t ld, int64_t columns, BFloat16* dst, int64_t dst_ld) {
  const U32 d;
  const int64_t lanes = hn::Lanes(d);
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t t = 0; t < kTerms; t += 2 * lanes) {
      const auto low = rounded_bits(src + j * ld + t), high = rounded_bits(src + j * ld + t + lanes);
#if HWY_TARGET == HWY_SCALAR
      const auto pairs = pairs_of(low, high);
#else
      const auto pairs = pairs_of(hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low));
#endif
      store_pairs(pairs, d, dst + j * dst_ld + t);
    }
  }
}

// Pairs (width, rows) from pairs (rows, width); both multiples of 4.
HWY_INLINE void transpose_pairs(const BFloat16* src, int64_t src_ld, int64_t rows, int64_t width,
                                BFloat16* dst, int64_t dst_ld) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < width; ++j) std::copy_n(src + i * src_ld + 2 * j, 2, dst + j * dst_ld + 2 * i);
  }
#else
  const hn::FixedTag<uint32_t, 4> d;
  const hn::FixedTag<uint64_t, 2> d64;
  const auto row = [&](int64_t i, int64_t j) {
    return hn::LoadU(d, reinterpret_cast<const uint32_t*>(src + i * src_ld + 2 * j));
  };
  for (int64_t i = 0; i < rows; i += 4) {
    for (int64_t j = 0; j < width; j += 4) {
      const auto a = row(i, j), b = row(i + 1, j), c = row(i + 2, j), e = row(i + 3, j);
      const auto ab_low = hn::BitCast(d64, hn::InterleaveLower(d, a, b));
      const auto ab_high = hn::BitCast(d64, hn::InterleaveUpper(d, a, b));
      const auto ce_low = hn::BitCast(d64, hn::InterleaveLower(d, c, e));
      const auto ce_high = hn::BitCast(d64, hn::InterleaveUpper(d, c, e));
      BFloat16* to = dst + j * dst_ld + 2 * i;
      store_pairs(hn::BitCast(d, hn::InterleaveLower(d64, ab_low, ce_low)), d, to);
      store_pairs(hn::BitCast(d, hn::InterleaveUpper(d64, ab_low, ce_low)), d, to + dst_ld);
      store_pairs(hn::BitCast(d, hn::InterleaveLower(d64, ab_high, ce_high)), d, to + 2 * dst_ld);
      store_pairs(hn::BitCast(d, hn::InterleaveUpper(d64, ab_high, ce_high)), d, to + 3 * dst_ld);
    }
  }
#endif
}

struct Source {
  const void* data;
  int64_t ld;
  bool k_contiguous;
};

// A whole tile of `columns` by kTerms: (kPairs, columns, 2) into a panel, or (columns, kTerms).
template <class T>
HWY_INLINE void pack_tile(const Source& source, int64_t columns, bool panel, BFloat16* dst, int64_t dst_ld) {
  const T* src = static_cast<const T*>(source.data);
  HWY_ALIGN BFloat16 pairs[kTerms * kColumns];
  if (source.k_contiguous && panel) {
    pair_columns(src, source.ld, columns, pairs, kTerms);
    transpose_pairs(pairs, kTerms, columns, kPairs, dst, dst_ld);
  } else if (source.k_contiguous) {
    pair_columns(src, source.ld, columns, dst, dst_ld);
  } else if (panel) {
    pair_rows(src, source.ld, columns, dst, dst_ld);
  } else {
    pair_rows(src, source.ld, columns, pairs, 2 * columns);
    transpose_pairs(pairs, 2 * columns, kPairs, columns, dst, dst_ld);
  }
}

template <class T>
class Packer {
 public:
  explicit Packer(const PackBf16& p) : p_(p), columns_(p.panel ? p.panel : kColumns) {}

  void run() const {
    const int64_t across = (p_.n + columns_ - 1) / columns_, down = (p_.k + kTerms - 1) / kTerms;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < across * down; ++i) tile(i / down * columns_, i % down * kTerms);
  }

 private:
  void tile(int64_t column, int64_t term) const {
    const T* from =
        static_cast<const T*>(p_.src) + (p_.k_contiguous ? column * p_.ld + term : term * p_.ld + column);
    const int64_t columns = std::min(columns_, p_.n - column), terms = std::min(kTerms, p_.k - term);
    if (columns < columns_ || terms < kTerms) return ragged_tile(from, column, term, columns, terms);
    pack_tile<T>({from, p_.ld, p_.k_contiguous}, columns_, p_.panel > 0, target(column, term), target_ld());
  }

  // By way of a whole tile with zeros beyond the operand.
  void ragged_tile(const T* from, int64_t column, int64_t term, int64_t columns, int64_t terms) const {
    T values[kTerms * kColumns] = {};
    const Source source = {values, p_.k_contiguous ? kTerms : columns_, p_.k_contiguous};
    const int64_t rows = p_.k_contiguous ? columns : terms, width = p_.k_contiguous ? terms : columns;
    for (int64_t i = 0; i < rows; ++i) std::copy_n(from + i * p_.ld, width, values + i * source.ld);
    if (p_.panel) return pack_tile<T>(source, columns_, true, target(column, term), target_ld());
    BFloat16 packed[kTerms * kColumns];
    pack_tile<T>(source, columns_, false, packed, kTerms);
    for (int64_t j = 0; j < columns; ++j) std::copy_n(packed + j * kTerms, terms, target(column + j, term));
  }

  BFloat16* target(int64_t column, int64_t term) const {
    const int64_t terms = (p_.k + kTerms - 1) / kTerms * kTerms;
    return p_.dst + (p_.panel ? column * terms + term * p_.panel : column * p_.k + term);
  }
  int64_t target_ld() const {
    return p_.panel ? 2 * p_.panel : p_.k;
  }

  PackBf16 p_;
  int64_t columns_;
};

void pack_operand(const PackBf16& p) {
  if (p.dtype == DType::f32) return Packer<float>(p).run();
  Packer<BFloat16>(p).run();
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {
HWY_EXPORT(pack_operand);

void pack_bf16(const PackBf16& p) {
  PLUMB_CHECK(p.dtype == DType::f32 || p.dtype == DType::bf16, "packing {}", dtype_name(p.dtype));
  PLUMB_CHECK(p.ld >= (p.k_contiguous ? p.k : p.n), "({}, {}): rows are {} apart", p.n, p.k, p.ld);
  PLUMB_CHECK(p.panel >= 0 && p.panel <= 64 && p.panel % 16 == 0, "panels of {}", p.panel);
  HWY_DYNAMIC_DISPATCH(pack_operand)(p);
}

}  // namespace plumb
#endif
