#include "kernels/convert.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/row_blocks.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convert.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {

template <bool round, class T>
void widen_row(const T* src, int64_t n, float* dst) {
  const F32 d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto x = load_f32(src + i);
    hn::StoreU(round ? round_to_bf16(x) : x, d, dst + i);
  }
  for (; i < n; ++i) {
    float x;
    if constexpr (std::is_same_v<T, float>)
      x = src[i];
    else
      x = to_float(src[i]);
    dst[i] = round ? to_float(to_bf16(x)) : x;
  }
}

template <class T>
void widen_rows(const Widen& w) {
  const T* src = static_cast<const T*>(w.src);
  const int64_t dst_ld = w.dst_ld ? w.dst_ld : w.width;
#pragma omp parallel for schedule(static) if (w.rows * w.width > kBlockFloats)
  for (int64_t r = 0; r < w.rows; ++r) {
    if (w.round_bf16) {
      widen_row<true>(src + r * w.ld, w.width, w.dst + r * dst_ld);
    } else {
      widen_row<false>(src + r * w.ld, w.width, w.dst + r * dst_ld);
    }
  }
}

void widen_matrix(const Widen& w) {
  switch (w.dtype) {
    case DType::f32:
      return widen_rows<float>(w);
    case DType::bf16:
      return widen_rows<BFloat16>(w);
    case DType::f16:
      return widen_rows<Float16>(w);
    default:
      PLUMB_CHECK(false, "operand of {}", dtype_name(w.dtype));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {
HWY_EXPORT(widen_matrix);

void widen(const Widen& w) {
  if (w.rows == 0 || w.width == 0) return;
  PLUMB_CHECK(w.ld >= w.width && (w.dst_ld == 0 || w.dst_ld >= w.width), "rows of {} are {} and {} apart",
              w.width, w.ld, w.dst_ld);
  HWY_DYNAMIC_DISPATCH(widen_matrix)(w);
}

}  // namespace plumb
#endif
