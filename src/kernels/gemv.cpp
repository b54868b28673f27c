#include "kernels/gemv.h"

#include <omp.h>

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "kernels/convert.h"
#include "kernels/row_blocks.h"
#include "kernels/simd_targets.h"
#include "tensor/memory.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemv.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd.h"

#ifndef PLUMB_KERNELS_GEMV_ONCE
#define PLUMB_KERNELS_GEMV_ONCE
namespace plumb {

// A product whose A is f32 as it is to be multiplied: rounded already where the product is bf16.
struct SmallProduct {
  const Gemm& g;
  const float* a;
  int64_t lda;
  bool round_b;  // b is f32 or f16 and has to be rounded to bf16
};

constexpr int64_t kRowsOfA = 4;      // that one pass over B serves
constexpr int64_t kRowsOfB = 4;      // of B as stored that a pass reads side by side
constexpr int64_t kColumnStep = 16;  // threads split the columns of C in multiples of this
constexpr int64_t kTermStep = 4;     // and the terms of a sum in multiples of this

// The rows of B lie one behind the other, so a fixed distance serves any width. Into the second-level cache:
// the first level has too few places for what is on its way from memory. Past the end of B it does nothing.
constexpr uintptr_t kAhead = 32768;

inline void add_row(int64_t n, const float* x, float* sum) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) sum[j] += x[j];
}

// C (m, [begin, end)) = [bias] [+ C]
inline void start_sums(const Gemm& g, int64_t begin, int64_t end) {
  for (int64_t i = 0; i < g.m; ++i) {
    float* c = g.c + i * g.ldc + begin;
    if (!g.add) std::fill_n(c, end - begin, 0.0f);
    if (g.bias) add_row(end - begin, g.bias + begin, c);
  }
}

}  // namespace plumb
#endif

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {

template <class T>
HWY_INLINE void prefetch_ahead(const T* p) {
  __builtin_prefetch(reinterpret_cast<const char*>(reinterpret_cast<uintptr_t>(p) + kAhead), 0, 2);
}

template <bool round, class T>
HWY_INLINE VecF32 load_weights(const T* p) {
  const VecF32 w = load_f32(p);
  if constexpr (round) return round_to_bf16(w);
  return w;
}

template <bool round, class T>
HWY_INLINE float load_weight(const T* p) {
  float w;
  if constexpr (std::is_same_v<T, float>) {
    w = *p;
  } else {
    w = to_float(*p);
  }
  return round ? to_float(to_bf16(w)) : w;
}

// C (rows, columns) of a block, from sums of products: + bias + C.
HWY_INLINE void store_sum(const Gemm& g, int64_t i, int64_t j, float sum) {
  float* c = g.c + i * g.ldc + j;
  if (g.bias) sum += g.bias[j];
  *c = g.add ? *c + sum : sum;
}

// B stored (n, k): `rows` of its rows from j on, each multiplied with `count` rows of A from i on.
template <bool round, int rows, int count, class T>
void dot_block(const SmallProduct& p, const T* b, int64_t i, int64_t j) {
  const F32 d;
  const int64_t lanes = hn::Lanes(d), k = p.g.k, ldb = p.g.b.ld;
  const float* a = p.a + i * p.lda;
  VecF32 sums[rows][count];
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < count; ++c) sums[r][c] = hn::Zero(d);
  }
  int64_t l = 0;
  for (; l + lanes <= k; l += lanes) {
    VecF32 x[count];
#pragma GCC unroll 4
    for (int c = 0; c < count; ++c) x[c] = hn::LoadU(d, a + c * p.lda + l);
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      prefetch_ahead(b + r * ldb + l);
      const VecF32 w = load_weights<round>(b + r * ldb + l);
#pragma GCC unroll 4
      for (int c = 0; c < count; ++c) sums[r][c] = hn::MulAdd(w, x[c], sums[r][c]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < count; ++c) {
      float sum = hn::GetLane(hn::SumOfLanes(d, sums[r][c]));
      for (int64_t e = l; e < k; ++e) sum += load_weight<round>(b + r * ldb + e) * a[c * p.lda + e];
      store_sum(p.g, i + c, j + r, sum);
    }
  }
}

template <bool round, int rows, class T>
void dot_rows(const SmallProduct& p, const T* b, int64_t j) {
  int64_t i = 0;
  for (; i + kRowsOfA <= p.g.m; i += kRowsOfA) dot_block<round, rows, kRowsOfA>(p, b, i, j);
  switch (p.g.m - i) {
    case 3:
      return dot_block<round, rows, 3>(p, b, i, j);
    case 2:
      return dot_block<round, rows, 2>(p, b, i, j);
    case 1:
      return dot_block<round, rows, 1>(p, b, i, j);
  }
}

// C (m, [begin, end)) with B stored (n, k).
template <bool round, class T>
void dot_products(const SmallProduct& p, int64_t begin, int64_t end) {
  const T* b = static_cast<const T*>(p.g.b.data);
  int64_t j = begin;
  for (; j + kRowsOfB <= end; j += kRowsOfB) dot_rows<round, kRowsOfB>(p, b + j * p.g.b.ld, j);
  for (; j < end; ++j) dot_rows<round, 1>(p, b + j * p.g.b.ld, j);
}

// B stored (k, n): C (m, [begin, end)) += `rows` terms from l on.
template <bool round, int rows, class T>
void add_terms(const SmallProduct& p, const T* b, int64_t l, int64_t begin, int64_t end) {
  const F32 d;
  const int64_t lanes = hn::Lanes(d), ldb = p.g.b.ld;
  int64_t j = begin;
  for (; j + 2 * lanes <= end; j += 2 * lanes) {  // two sums at a time, which do not wait for each other
    VecF32 w[2][rows];
#pragma GCC unroll 4
    for (int r = 0; r < rows; ++r) {
      prefetch_ahead(b + (l + r) * ldb + j);
      if constexpr (sizeof(T) == 4) prefetch_ahead(b + (l + r) * ldb + j + lanes);
      w[0][r] = load_weights<round>(b + (l + r) * ldb + j);
      w[1][r] = load_weights<round>(b + (l + r) * ldb + j + lanes);
    }
    for (int64_t i = 0; i < p.g.m; ++i) {
      const float* a = p.a + i * p.lda + l;
      float* c = p.g.c + i * p.g.ldc + j;
      VecF32 low = hn::LoadU(d, c), high = hn::LoadU(d, c + lanes);
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        const VecF32 x = hn::Set(d, a[r]);
        low = hn::MulAdd(w[0][r], x, low);
        high = hn::MulAdd(w[1][r], x, high);
      }
      hn::StoreU(low, d, c);
      hn::StoreU(high, d, c + lanes);
    }
  }
  for (; j < end; ++j) {
    for (int64_t i = 0; i < p.g.m; ++i) {
      for (int r = 0; r < rows; ++r) {
        p.g.c[i * p.g.ldc + j] += load_weight<round>(b + (l + r) * ldb + j) * p.a[i * p.lda + l + r];
      }
    }
  }
}

// C (m, [begin, end)) with B stored (k, n).
template <bool round, class T>
void sum_of_rows(const SmallProduct& p, int64_t begin, int64_t end) {
  const T* b = static_cast<const T*>(p.g.b.data);
  const Gemm& g = p.g;
  start_sums(g, begin, end);
  int64_t l = 0;
  for (; l + kTermStep <= g.k; l += kTermStep) add_terms<round, kTermStep>(p, b, l, begin, end);
  for (; l < g.k; ++l) add_terms<round, 1>(p, b, l, begin, end);
}

template <bool round, class T>
void product_of(const SmallProduct& p, int64_t begin, int64_t end) {
  p.g.b.transposed ? dot_products<round, T>(p, begin, end) : sum_of_rows<round, T>(p, begin, end);
}

void small_product(const SmallProduct& p, int64_t begin, int64_t end) {
  switch (p.g.b.dtype) {
    case DType::f32:
      return (p.round_b ? product_of<true, float> : product_of<false, float>)(p, begin, end);
    case DType::f16:
      return (p.round_b ? product_of<true, Float16> : product_of<false, Float16>)(p, begin, end);
    case DType::bf16:
      return product_of<false, BFloat16>(p, begin, end);
    default:
      PLUMB_CHECK(false, "weights of {}", dtype_name(p.g.b.dtype));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {
HWY_EXPORT(small_product);

bool gemv_suits(const Gemm& g) {
  // Measured: f32 weights are as fast through sgemm from about 16 rows on; 16-bit ones have to be widened for
  // it.
  const int64_t most_rows = g.b.dtype == DType::f32 ? 8 : 16;
  return g.m <= most_rows && g.a.dtype == DType::f32 && !g.a.transposed;
}

namespace {

// B stored (n, k): each thread reads some of its rows.
void split_columns(const SmallProduct& p) {
#pragma omp parallel
  {
    const int64_t steps = (p.g.n + kColumnStep - 1) / kColumnStep, threads = omp_get_num_threads();
    const int64_t thread = omp_get_thread_num();
    HWY_DYNAMIC_DISPATCH(small_product)
    (p, steps * thread / threads * kColumnStep,
     std::min(p.g.n, steps * (thread + 1) / threads * kColumnStep));
  }
}

// B stored (k, n): each thread reads some of its rows too, a stretch of memory without gaps, and so has a sum
// of its own for each element of C.
void split_terms(const SmallProduct& p) {
  const Gemm& g = p.g;
  const int64_t sums = g.m * g.n;
  const Scratch parts(omp_get_max_threads() * sums);
#pragma omp parallel
  {
    const int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
    const int64_t steps = (g.k + kTermStep - 1) / kTermStep;
    const int64_t first = std::min(g.k, steps * thread / threads * kTermStep);
    Gemm part = g;
    part.k = std::min(g.k, steps * (thread + 1) / threads * kTermStep) - first;
    part.b.data =
        static_cast<const char*>(g.b.data) + first * g.b.ld * static_cast<int64_t>(dtype_size(g.b.dtype));
    part.c = parts.data() + thread * sums;
    part.ldc = g.n;
    part.bias = nullptr;
    part.add = false;
    HWY_DYNAMIC_DISPATCH(small_product)
    ({.g = part, .a = p.a + first, .lda = p.lda, .round_b = p.round_b}, 0, g.n);
#pragma omp barrier
    const int64_t begin = g.n * thread / threads, end = g.n * (thread + 1) / threads;
    start_sums(g, begin, end);
    for (int64_t other = 0; other < threads; ++other) {
      for (int64_t i = 0; i < g.m; ++i) {
        add_row(end - begin, parts.data() + other * sums + i * g.n + begin, g.c + i * g.ldc + begin);
      }
    }
  }
}

}  // namespace

void gemv(const Gemm& g) {
  PLUMB_CHECK(g.a.dtype == DType::f32 && !g.a.transposed);
  const bool bf16 = g.compute == DType::bf16 || g.b.dtype == DType::bf16;
  SmallProduct p{.g = g,
                 .a = static_cast<const float*>(g.a.data),
                 .lda = g.a.ld,
                 .round_b = bf16 && g.b.dtype != DType::bf16};
  std::shared_ptr<void> rounded;
  if (bf16) {
    rounded = allocate_memory(g.m * g.k * sizeof(float));
    widen({.src = g.a.data,
           .rows = g.m,
           .width = g.k,
           .ld = g.a.ld,
           .round_bf16 = true,
           .dst = static_cast<float*>(rounded.get())});
    p.a = static_cast<const float*>(rounded.get());
    p.lda = g.k;
  }
  g.b.transposed ? split_columns(p) : split_terms(p);
}

void gemv_serial(const Gemm& g) {
  PLUMB_CHECK(g.a.dtype == DType::f32 && !g.a.transposed && g.compute == DType::f32);
  HWY_DYNAMIC_DISPATCH(small_product)
  ({.g = g, .a = static_cast<const float*>(g.a.data), .lda = g.a.ld, .round_b = false}, 0, g.n);
}

}  // namespace plumb
#endif
