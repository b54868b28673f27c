#include "kernels/tile_product.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "base/check.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/tile_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::CappedTag<float, 16>;
using VecF32 = hn::Vec<F32>;

// A block of C in registers: rows, and vectors of columns. All of its sums, a row of B and one number of A
// have to fit: 29 registers of 32, or 15 of 16.
constexpr int kRows = 6;
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) || HWY_ARCH_ARM_A64
constexpr int kVectors = 4;
#else
constexpr int kVectors = 2;
#endif
constexpr int64_t kDepth = 128;  // terms at a time: what a panel of B's columns holds of them stays in L1

// One block's operands: A and C from its first row, B and C from its first column.
struct Block {
  const float* a;
  int64_t a_row, a_col;
  const float* b;
  int64_t ldb, b_first;  // the term that b begins with
  float* c;
  int64_t ldc;
  float alpha;
  bool add;
  Interval any, all;      // terms of some row, and those of every row
  const Interval* terms;  // of each row; null where `any` is `all`
};

template <int rows, int vectors>
using Sums = VecF32[rows][vectors];

template <int vectors>
HWY_INLINE void load_row(const float* b, VecF32 (&x)[vectors]) {
  const F32 d;
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) x[v] = hn::LoadU(d, b + v * hn::Lanes(d));
}

template <int rows, int vectors>
HWY_INLINE void add_term(const Block& s, int64_t l, Sums<rows, vectors>& sums) {
  VecF32 b[vectors];
  load_row(s.b + (l - s.b_first) * s.ldb, b);
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r) {
    const VecF32 a = hn::Set(F32(), s.a[r * s.a_row + l * s.a_col]);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[r][v] = hn::MulAdd(a, b[v], sums[r][v]);
  }
}

// The same for the rows alone that the term belongs to.
template <int rows, int vectors>
HWY_INLINE void add_term_of_some(const Block& s, int64_t l, Sums<rows, vectors>& sums) {
  VecF32 b[vectors];
  load_row(s.b + (l - s.b_first) * s.ldb, b);
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r) {
    if (l < s.terms[r].begin || l >= s.terms[r].end) continue;
    const VecF32 a = hn::Set(F32(), s.a[r * s.a_row + l * s.a_col]);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[r][v] = hn::MulAdd(a, b[v], sums[r][v]);
  }
}

template <int rows, int vectors>
void block(const Block& s) {
  const F32 d;
  Sums<rows, vectors> sums;
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[r][v] = hn::Zero(d);
  }
  int64_t l = s.any.begin;
  for (; l < s.all.begin; ++l) add_term_of_some<rows, vectors>(s, l, sums);
  for (; l < s.all.end; ++l) add_term<rows, vectors>(s, l, sums);
  for (; l < s.any.end; ++l) add_term_of_some<rows, vectors>(s, l, sums);
  const VecF32 alpha = hn::Set(d, s.alpha);
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      float* c = s.c + r * s.ldc + v * hn::Lanes(d);
      hn::StoreU(s.add ? hn::MulAdd(alpha, sums[r][v], hn::LoadU(d, c)) : hn::Mul(alpha, sums[r][v]), d, c);
    }
  }
}

template <int rows>
void block_of_rows(const Block& s, int vectors) {
  if constexpr (kVectors == 4) {
    if (vectors == 4) return block<rows, kVectors>(s);
    if (vectors == 3) return block<rows, kVectors - 1>(s);
  }
  vectors == 2 ? block<rows, 2>(s) : block<rows, 1>(s);
}

void any_block(const Block& s, int rows, int vectors) {
  constexpr std::array<void (*)(const Block&, int), kRows> kernels = {block_of_rows<1>, block_of_rows<2>,
                                                                      block_of_rows<3>, block_of_rows<4>,
                                                                      block_of_rows<5>, block_of_rows<6>};
  kernels[rows - 1](s, vectors);
}

// A block's rows of C, and what they need.
struct Group {
  int64_t first;
  int rows;
  Interval columns, any, all;
};

Group group_at(const TileProduct& p, int64_t first) {
  Group group{.first = first,
              .rows = static_cast<int>(std::min<int64_t>(kRows, p.m - first)),
              .columns = {0, p.n},
              .any = {0, p.k},
              .all = {0, p.k}};
  if (p.columns) group.columns = hull(p.columns + first, group.rows);
  if (p.terms) {
    group.any = hull(p.terms + first, group.rows);
    for (int r = 0; r < group.rows; ++r) group.all = intersection(group.all, p.terms[first + r]);
  }
  return group;
}

// A group's block with the terms `depth`.
Block block_of(const TileProduct& p, const Group& group, Interval depth) {
  Block s{.a = p.a + group.first * p.a_row,
          .a_row = p.a_row,
          .a_col = p.a_col,
          .b = p.b + depth.begin * p.ldb,
          .ldb = p.ldb,
          .b_first = depth.begin,
          .c = p.c + group.first * p.ldc,
          .ldc = p.ldc,
          .alpha = p.alpha,
          .add = p.add || depth.begin > 0,
          .any = intersection(group.any, depth),
          .all = intersection(group.all, depth),
          .terms = p.terms ? p.terms + group.first : nullptr};
  if (s.all.empty()) s.all = {s.any.end, s.any.end};
  return s;
}

// The columns behind the last whole vector, from `first` on, by way of copies that have one.
void last_columns(const TileProduct& p, std::span<const Group> groups, int64_t first, Interval depth) {
  constexpr int64_t lanes = hn::MaxLanes(F32());
  const int64_t width = p.n - first;
  float b[kDepth * lanes] = {}, c[kRows * lanes];
  for (int64_t l = depth.begin; l < depth.end; ++l) {
    std::copy_n(p.b + l * p.ldb + first, width, b + (l - depth.begin) * lanes);
  }
  for (const Group& group : groups) {
    Block s = block_of(p, group, depth);
    s.b = b;
    s.ldb = lanes;
    s.c = c;
    s.ldc = lanes;
    s.add = false;
    any_block(s, group.rows, 1);
    const bool add = p.add || depth.begin > 0;
    for (int r = 0; r < group.rows; ++r) {
      for (int64_t j = 0; j < width; ++j) {
        float& out = p.c[(group.first + r) * p.ldc + first + j];
        out = add ? out + c[r * lanes + j] : c[r * lanes + j];
      }
    }
  }
}

// Whole vectors of columns, as many as a block has.
void panel(const TileProduct& p, std::span<const Group> groups, Interval columns, Interval depth) {
  const int64_t lanes = hn::Lanes(F32());
  for (const Group& group : groups) {
    const int64_t begin = std::max(columns.begin, group.columns.begin / lanes * lanes);
    const int64_t end = std::min(columns.end, (group.columns.end + lanes - 1) / lanes * lanes);
    if (begin >= end) continue;
    Block s = block_of(p, group, depth);
    if (s.any.empty() && s.add) continue;
    s.b += begin;
    s.c += begin;
    any_block(s, group.rows, static_cast<int>((end - begin) / lanes));
  }
}

void product_of(const TileProduct& p, std::span<const Group> groups) {
  const int64_t lanes = hn::Lanes(F32()), width = kVectors * lanes, whole = p.n / lanes * lanes;
  for (int64_t l = 0; l == 0 || l < p.k; l += kDepth) {
    const Interval depth{l, std::min(p.k, l + kDepth)};
    for (int64_t j = 0; j < whole; j += width) panel(p, groups, {j, std::min(whole, j + width)}, depth);
    if (whole < p.n) last_columns(p, groups, whole, depth);
  }
}

void product(const TileProduct& p) {
  std::array<Group, 16> groups;  // that go through B together
  for (int64_t i = 0; i < p.m;) {
    size_t count = 0;
    for (; count < groups.size() && i < p.m; i += kRows) groups[count++] = group_at(p, i);
    product_of(p, {groups.data(), count});
  }
}

#if HWY_TARGET != HWY_SCALAR
// Four rows from i on, of columns [0, width), a multiple of four.
void turn_four(const TileTranspose& t, int64_t i, int64_t width) {
  const hn::FixedTag<float, 4> d;
  const float* x = t.x + i * t.ld;
  float* out = t.out + i;
  for (int64_t j = 0; j < width; j += 4) {
    const auto x0 = hn::LoadU(d, x + j), x1 = hn::LoadU(d, x + t.ld + j), x2 = hn::LoadU(d, x + 2 * t.ld + j),
               x3 = hn::LoadU(d, x + 3 * t.ld + j);
    const auto even_low = hn::InterleaveLower(d, x0, x2), even_high = hn::InterleaveUpper(d, x0, x2);
    const auto odd_low = hn::InterleaveLower(d, x1, x3), odd_high = hn::InterleaveUpper(d, x1, x3);
    hn::StoreU(hn::InterleaveLower(d, even_low, odd_low), d, out + j * t.out_ld);
    hn::StoreU(hn::InterleaveUpper(d, even_low, odd_low), d, out + (j + 1) * t.out_ld);
    hn::StoreU(hn::InterleaveLower(d, even_high, odd_high), d, out + (j + 2) * t.out_ld);
    hn::StoreU(hn::InterleaveUpper(d, even_high, odd_high), d, out + (j + 3) * t.out_ld);
  }
}
constexpr int64_t kTurned = 4;
#else
void turn_four(const TileTranspose&, int64_t, int64_t) {}
constexpr int64_t kTurned = std::numeric_limits<int64_t>::max();
#endif

void turn(const TileTranspose& t) {
  const int64_t rows = t.rows / kTurned * kTurned, width = t.width / kTurned * kTurned;
  for (int64_t i = 0; i < rows; i += 4) turn_four(t, i, width);
  for (int64_t i = 0; i < t.rows; ++i) {
    for (int64_t j = i < rows ? width : 0; j < t.width; ++j) t.out[j * t.out_ld + i] = t.x[i * t.ld + j];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {
HWY_EXPORT(product);
HWY_EXPORT(turn);

void tile_product(const TileProduct& p) {
  PLUMB_CHECK(p.ldb >= p.n && p.ldc >= p.n, "rows of {} are {} and {} apart", p.n, p.ldb, p.ldc);
  HWY_DYNAMIC_DISPATCH(product)(p);
}

void tile_transpose(const TileTranspose& t) {
  PLUMB_CHECK(t.ld >= t.width && t.out_ld >= t.rows, "({}, {}): rows are {} and {} apart", t.rows, t.width,
              t.ld, t.out_ld);
  HWY_DYNAMIC_DISPATCH(turn)(t);
}

}  // namespace plumb
#endif
