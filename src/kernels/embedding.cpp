#include "kernels/embedding.h"

#include <omp.h>

#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "kernels/row_blocks.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/embedding.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd.h"
#include "kernels/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {

template <class T>
void scaled_row_of(int64_t n, float scale, const T* x, float* y, bool add) {
  const F32 d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) store(d, hn::Mul(hn::Set(d, scale), load_f32(x + i)), y + i, add);
  for (; i < n; ++i) {
    float v;
    if constexpr (std::is_same_v<T, float>) {
      v = x[i];
    } else {
      v = to_float(x[i]);
    }
    y[i] = (add ? y[i] : 0.0f) + scale * v;
  }
}

void scaled_row(DType dtype, int64_t n, float scale, const void* x, float* y, bool add) {
  switch (dtype) {
    case DType::f32:
      return scaled_row_of(n, scale, static_cast<const float*>(x), y, add);
    case DType::bf16:
      return scaled_row_of(n, scale, static_cast<const BFloat16*>(x), y, add);
    case DType::f16:
      return scaled_row_of(n, scale, static_cast<const Float16*>(x), y, add);
    default:
      PLUMB_CHECK(false, "table of {}", dtype_name(dtype));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {

HWY_EXPORT(scaled_row);

namespace {

template <class A>
void check_ids(const A& a) {
  PLUMB_CHECK(a.rows >= 0 && a.width > 0, "{} rows of {}", a.rows, a.width);
  for (int64_t r = 0; r < a.rows; ++r) {
    PLUMB_CHECK(a.ids[r] >= 0 && a.ids[r] < a.vocabulary, "id {} of {}, row {}", a.ids[r], a.vocabulary, r);
  }
}

}  // namespace

void embedding_forward(const EmbeddingForward& a) {
  check_ids(a);
  const size_t row_bytes = static_cast<size_t>(a.width) * dtype_size(a.dtype);
  for_blocks(a.rows, rows_per_block(a.width), [&](int64_t, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const char* row = static_cast<const char*>(a.table) + a.ids[r] * row_bytes;
      HWY_DYNAMIC_DISPATCH(scaled_row)(a.dtype, a.width, a.scale, row, a.y + r * a.width, a.add);
    }
  });
}

// Each thread has some columns and all rows: rows that share an id meet in the order of the rows.
void embedding_backward(const EmbeddingBackward& a) {
  check_ids(a);
  if (!a.add) {
    for_blocks(a.vocabulary, rows_per_block(a.width), [&](int64_t, int64_t first, int64_t last) {
      std::memset(a.dtable + first * a.width, 0,
                  static_cast<size_t>((last - first) * a.width) * sizeof(float));
    });
  }
  constexpr int64_t kLine = 16;
  const int64_t share = (a.width + omp_get_max_threads() - 1) / omp_get_max_threads();
  for_blocks(a.width, (share + kLine - 1) / kLine * kLine, [&](int64_t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < a.rows; ++r) {
      float* row = a.dtable + a.ids[r] * a.width;
      HWY_DYNAMIC_DISPATCH(scaled_row)
      (DType::f32, last - first, a.scale, a.dy + r * a.width + first, row + first, true);
    }
  });
}

void sinusoidal_table(Sinusoid kind, int64_t positions, int64_t width, float* table) {
  const int64_t sines = (width + 1) / 2;
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t c = 0; c < width; ++c) {
      const int64_t even = c - c % 2;
      const double angle =
          static_cast<double>(p) / std::pow(10000.0, static_cast<double>(even) / static_cast<double>(width));
      const int64_t place = kind == Sinusoid::interleaved ? c : c % 2 ? sines + c / 2 : c / 2;
      table[p * width + place] = static_cast<float>(c % 2 ? std::cos(angle) : std::sin(angle));
    }
  }
}

}  // namespace plumb
#endif  // HWY_ONCE
