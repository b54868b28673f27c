#include "kernels/elementwise.h"

#include <cstring>

#include "base/check.h"
#include "kernels/row_blocks.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd.h"
#include "kernels/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {

void combine_range(int64_t n, float a, const float* x, float b, const float* y, float* out) {
  if (!y) {
    for_lanes(n, [&](auto d, size_t i)
                     HWY_ATTR { hn::StoreU(hn::Mul(hn::Set(d, a), hn::LoadU(d, x + i)), d, out + i); });
    return;
  }
  for_lanes(n, [&](auto d, size_t i) HWY_ATTR {
    const auto by = hn::Mul(hn::Set(d, b), hn::LoadU(d, y + i));
    hn::StoreU(hn::MulAdd(hn::Set(d, a), hn::LoadU(d, x + i), by), d, out + i);
  });
}

void multiply_range(int64_t n, const float* x, const float* y, float* out, bool add) {
  for_lanes(n, [&](auto d, size_t i)
                   HWY_ATTR { store(d, hn::Mul(hn::LoadU(d, x + i), hn::LoadU(d, y + i)), out + i, add); });
}

void residual_forward_rows(const ResidualForward& a, const float* gate, int64_t first, int64_t last) {
  for (int64_t n = first; n < last; ++n) {
    const int64_t at = n * a.width;
    for_lanes(a.width, [&](auto d, size_t i) HWY_ATTR {
      const auto g = hn::Mul(hn::LoadU(d, gate + i), hn::LoadU(d, a.branch + at + i));
      hn::StoreU(hn::MulAdd(hn::Set(d, a.alpha), hn::LoadU(d, a.x + at + i), g), d, a.y + at + i);
    });
  }
}

void residual_backward_rows(const ResidualBackward& a, const float* gate, float* gate_sum, int64_t first,
                            int64_t last) {
  for (int64_t n = first; n < last; ++n) {
    const int64_t at = n * a.width;
    for_lanes(a.width, [&](auto d, size_t i) HWY_ATTR {
      const auto g = hn::LoadU(d, a.dy + at + i);
      if (gate_sum) {  // as norm_backward sums it, to the bit
        hn::StoreU(hn::MulAdd(g, hn::LoadU(d, a.branch + at + i), hn::LoadU(d, gate_sum + i)), d,
                   gate_sum + i);
      }
      if (a.dx) store(d, hn::Mul(hn::Set(d, a.alpha), g), a.dx + at + i, a.add_x);
      if (a.dbranch) store(d, hn::Mul(hn::LoadU(d, gate + i), g), a.dbranch + at + i, a.add_branch);
    });
  }
}

void bias_forward_row(int64_t n, const float* x, const float* bias, float* y) {
  for_lanes(n, [&](auto d, size_t i)
                   HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(d, x + i), hn::LoadU(d, bias + i)), d, y + i); });
}

void add_row(int64_t n, const float* x, float* sum) {
  for_lanes(n, [&](auto d, size_t i) HWY_ATTR { store(d, hn::LoadU(d, x + i), sum + i, true); });
}

// The 16-bit halves of f32, as to_bf16 rounds them.
void to_bf16_range(int64_t n, const float* x, BFloat16* y) {
  const F32 d;
  const hn::RebindToSigned<F32> di;
  const hn::RebindToUnsigned<F32> du;
  const hn::Rebind<uint16_t, F32> dh;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto high = hn::ShiftRight<16>(hn::BitCast(du, round_to_bf16(hn::LoadU(d, x + i))));
    hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, high)), dh, reinterpret_cast<uint16_t*>(y + i));
  }
  for (; i < n; ++i) y[i] = to_bf16(x[i]);
}

void from_bf16_range(int64_t n, const BFloat16* x, float* y) {
  const F32 d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(load_f32(x + i), d, y + i);
  for (; i < n; ++i) y[i] = to_float(x[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {

HWY_EXPORT(combine_range);
HWY_EXPORT(multiply_range);
HWY_EXPORT(residual_forward_rows);
HWY_EXPORT(residual_backward_rows);
HWY_EXPORT(bias_forward_row);
HWY_EXPORT(add_row);
HWY_EXPORT(to_bf16_range);
HWY_EXPORT(from_bf16_range);

void linear_combination(int64_t n, float a, const float* x, float b, const float* y, float* out) {
  for_blocks(n, kBlockFloats, [&](int64_t, int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(combine_range)(last - first, a, x + first, b, y ? y + first : nullptr, out + first);
  });
}

void multiply(int64_t n, const float* x, const float* y, float* out, bool add) {
  for_blocks(n, kBlockFloats, [&](int64_t, int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(multiply_range)(last - first, x + first, y + first, out + first, add);
  });
}

void Gate::fill(int64_t width, float* out) const {
  for (int64_t c = 0; c < width; ++c) out[c] = !values ? constant : values[per_column ? c : 0];
}

void residual_forward(const ResidualForward& a) {
  PLUMB_CHECK(a.rows >= 0 && a.width > 0, "{} rows of {}", a.rows, a.width);
  const Scratch gate(a.width);
  a.gate.fill(a.width, gate.data());
  for_blocks(a.rows, rows_per_block(a.width), [&](int64_t, int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(residual_forward_rows)(a, gate.data(), first, last);
  });
}

void residual_backward(const ResidualBackward& a) {
  PLUMB_CHECK(a.rows >= 0 && a.width > 0, "{} rows of {}", a.rows, a.width);
  PLUMB_CHECK(!a.dgate || a.branch, "the gate's gradient needs the branch");
  PLUMB_CHECK(a.dx != a.dbranch || !a.dx, "two outputs in one array");
  const Scratch gate(a.width);
  a.gate.fill(a.width, gate.data());
  const ColumnSums sums(a.dgate ? a.rows : 0, a.width, 1);
  for_blocks(a.rows, kBlockRows, [&](int64_t block, int64_t first, int64_t last) {
    float* gate_sum = a.dgate ? sums.cleared_partial(block, 0) : nullptr;
    HWY_DYNAMIC_DISPATCH(residual_backward_rows)(a, gate.data(), gate_sum, first, last);
  });
  if (a.dgate && a.gate.per_column) sums.finish(0, a.dgate, a.add_gate);
  if (a.dgate && !a.gate.per_column) sums.finish_scalar(0, a.dgate, a.add_gate);
}

void bias_forward(int64_t rows, int64_t width, const float* x, const float* bias, float* y) {
  for_blocks(rows, rows_per_block(width), [&](int64_t, int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n) {
      HWY_DYNAMIC_DISPATCH(bias_forward_row)(width, x + n * width, bias, y + n * width);
    }
  });
}

void bias_backward(int64_t rows, int64_t width, const float* dy, float* dbias, bool add) {
  const ColumnSums sums(rows, width, 1);
  for_blocks(rows, kBlockRows, [&](int64_t block, int64_t first, int64_t last) {
    float* sum = sums.cleared_partial(block, 0);
    for (int64_t n = first; n < last; ++n) HWY_DYNAMIC_DISPATCH(add_row)(width, dy + n * width, sum);
  });
  sums.finish(0, dbias, add);
}

void cast(const Cast& a) {
  const size_t from = dtype_size(a.from), to = dtype_size(a.to);
  for_blocks(a.n, kBlockFloats, [&](int64_t, int64_t first, int64_t last) {
    const int64_t n = last - first;
    const char* x = static_cast<const char*>(a.x) + first * from;
    char* y = static_cast<char*>(a.y) + first * to;
    if (a.from == a.to) {
      std::memcpy(y, x, n * to);
    } else if (a.from == DType::f16 && a.to == DType::f32) {
      for (int64_t i = 0; i < n; ++i) {
        reinterpret_cast<float*>(y)[i] = to_float(reinterpret_cast<const Float16*>(x)[i]);
      }
    } else if (a.from == DType::bf16 && a.to == DType::f32) {
      HWY_DYNAMIC_DISPATCH(from_bf16_range)
      (n, reinterpret_cast<const BFloat16*>(x), reinterpret_cast<float*>(y));
    } else if (a.from == DType::f32 && a.to == DType::bf16) {
      HWY_DYNAMIC_DISPATCH(to_bf16_range)
      (n, reinterpret_cast<const float*>(x), reinterpret_cast<BFloat16*>(y));
    } else if (a.from == DType::f32 && a.to == DType::f16) {
      for (int64_t i = 0; i < n; ++i) {
        reinterpret_cast<Float16*>(y)[i] = to_f16(reinterpret_cast<const float*>(x)[i]);
      }
    } else {
      PLUMB_CHECK(false, "cast from {} to {}", dtype_name(a.from), dtype_name(a.to));
    }
  });
}

namespace {

void copy_row(int64_t width, const float* x, float* y, bool add) {
  if (add) {
    HWY_DYNAMIC_DISPATCH(add_row)(width, x, y);
  } else {
    std::memcpy(y, x, static_cast<size_t>(width) * sizeof(float));
  }
}

}  // namespace

void gather_rows(const RowsByIndex& a) {
  for_blocks(a.rows, rows_per_block(a.width), [&](int64_t, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r)
      copy_row(a.width, a.x + a.index[r] * a.width, a.y + r * a.width, a.add);
  });
}

void scatter_rows(const RowsByIndex& a) {
  for_blocks(a.rows, rows_per_block(a.width), [&](int64_t, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r)
      copy_row(a.width, a.x + r * a.width, a.y + a.index[r] * a.width, a.add);
  });
}

}  // namespace plumb
#endif  // HWY_ONCE
