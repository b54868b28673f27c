#include "kernels/rope.h"

#include <cmath>

#include "base/check.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rope.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {

// sin is multiplied by `sign`: +1 turns forward, -1 back.
void turn_half(float* x, int64_t half, const float* cos, const float* sin, float sign) {
  const F32 d;
  const int64_t lanes = hn::Lanes(d);
  const auto signs = hn::Set(d, sign);
  int64_t i = 0;
  for (; i + lanes <= half; i += lanes) {
    const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + half + i);
    const auto c = hn::LoadU(d, cos + i), s = hn::Mul(signs, hn::LoadU(d, sin + i));
    hn::StoreU(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, x + i);
    hn::StoreU(hn::MulAdd(a, s, hn::Mul(b, c)), d, x + half + i);
  }
  for (; i < half; ++i) {
    const float a = x[i], b = x[half + i], s = sign * sin[i];
    x[i] = a * cos[i] - b * s;
    x[half + i] = b * cos[i] + a * s;
  }
}

void turn_interleaved(float* x, int64_t half, const float* cos, const float* sin, float sign) {
  const F32 d;
  const int64_t lanes = hn::Lanes(d);
  const auto signs = hn::Set(d, sign);
  int64_t i = 0;
  for (; i + lanes <= half; i += lanes) {
    VecF32 a, b;
    hn::LoadInterleaved2(d, x + 2 * i, a, b);
    const auto c = hn::LoadU(d, cos + i), s = hn::Mul(signs, hn::LoadU(d, sin + i));
    hn::StoreInterleaved2(hn::NegMulAdd(b, s, hn::Mul(a, c)), hn::MulAdd(a, s, hn::Mul(b, c)), d, x + 2 * i);
  }
  for (; i < half; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1], s = sign * sin[i];
    x[2 * i] = a * cos[i] - b * s;
    x[2 * i + 1] = b * cos[i] + a * s;
  }
}

void turn_rows(const Rope& r) {
  const int64_t half = r.rotary_dim / 2;
  const float sign = r.inverse ? -1.0f : 1.0f;
#pragma omp parallel for schedule(static)
  for (int64_t n = 0; n < r.rows; ++n) {
    const float* cos = r.cos + r.positions[n] * half;
    const float* sin = r.sin + r.positions[n] * half;
    for (int64_t h = 0; h < r.heads; ++h) {
      float* x = r.x + n * r.row_stride + h * r.head_dim;
      r.interleaved ? turn_interleaved(x, half, cos, sin, sign) : turn_half(x, half, cos, sin, sign);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {
HWY_EXPORT(turn_rows);

std::vector<double> rope_frequencies(double base, int64_t dims) {
  PLUMB_CHECK(dims >= 0 && base > 0, "{} rotary dims, base {}", dims, base);
  std::vector<double> frequencies((dims + 1) / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dims));
  }
  return frequencies;
}

RopeTable rope_table(const std::vector<double>& frequencies, int64_t positions, double attention_factor) {
  RopeTable table;
  table.cos.reserve(positions * frequencies.size());
  table.sin.reserve(positions * frequencies.size());
  for (int64_t p = 0; p < positions; ++p) {
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(p) * frequency;
      table.cos.push_back(static_cast<float>(attention_factor * std::cos(angle)));
      table.sin.push_back(static_cast<float>(attention_factor * std::sin(angle)));
    }
  }
  return table;
}

void rope(const Rope& r) {
  PLUMB_CHECK(r.rotary_dim % 2 == 0 && r.rotary_dim >= 0 && r.rotary_dim <= r.head_dim, "rotary dim {} of {}",
              r.rotary_dim, r.head_dim);
  PLUMB_CHECK(r.row_stride >= r.heads * r.head_dim, "rows of {} are {} apart", r.heads * r.head_dim,
              r.row_stride);
  HWY_DYNAMIC_DISPATCH(turn_rows)(r);
}

}  // namespace plumb
#endif
