#include "kernels/reduce.h"

#include <bit>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "kernels/row_blocks.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_math-inl.h"

#ifndef PLUMB_KERNELS_REDUCE_ONCE
#define PLUMB_KERNELS_REDUCE_ONCE
namespace plumb {

struct PowerSums {
  double zeros = 0, not_finite = 0, first = 0, second = 0, fourth = 0, largest = 0;
};

}  // namespace plumb
#endif

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {

double dot_range(int64_t n, const float* x, const float* y) {
  return sum_lanes(n, [&](auto d, size_t i, auto acc)
                          HWY_ATTR { return hn::MulAdd(load_wide(d, x + i), load_wide(d, y + i), acc); });
}

// As integers the bits of |x| are in the order of |x|, with NaN above infinity.
int32_t max_bits_range(int64_t n, const float* x) {
  const hn::ScalableTag<int32_t> d;
  const int64_t lanes = hn::Lanes(d);
  const int32_t* bits = reinterpret_cast<const int32_t*>(x);
  const auto magnitude = hn::Set(d, 0x7fffffff);
  auto largest = hn::Zero(d), other = largest;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    largest = hn::Max(largest, hn::And(hn::LoadU(d, bits + i), magnitude));
    other = hn::Max(other, hn::And(hn::LoadU(d, bits + i + lanes), magnitude));
  }
  int32_t result = hn::GetLane(hn::MaxOfLanes(d, hn::Max(largest, other)));
  for (; i < n; ++i) result = std::max(result, std::bit_cast<int32_t>(x[i]) & 0x7fffffff);
  return result;
}

// Whole vectors of [i, n) into `s`; returns where it stopped. D is a tag of f64.
template <class D>
HWY_INLINE int64_t add_powers(D d, int64_t i, int64_t n, const float* x, PowerSums& s) {
  const int64_t lanes = hn::Lanes(d);
  const auto zero = hn::Zero(d), one = hn::Set(d, 1.0);
  auto zeros = zero, not_finite = zero, first = zero, second = zero, fourth = zero, largest = zero;
  for (; i + lanes <= n; i += lanes) {
    const auto v = load_wide(d, x + i);
    const auto square = hn::Mul(v, v);
    zeros = hn::Add(zeros, hn::IfThenElseZero(hn::Eq(v, zero), one));
    not_finite = hn::Add(not_finite, hn::IfThenZeroElse(hn::IsFinite(v), one));
    first = hn::Add(first, v);
    second = hn::Add(second, square);
    fourth = hn::MulAdd(square, square, fourth);
    largest = hn::Max(largest, hn::Abs(v));
  }
  s.zeros += hn::GetLane(hn::SumOfLanes(d, zeros));
  s.not_finite += hn::GetLane(hn::SumOfLanes(d, not_finite));
  s.first += hn::GetLane(hn::SumOfLanes(d, first));
  s.second += hn::GetLane(hn::SumOfLanes(d, second));
  s.fourth += hn::GetLane(hn::SumOfLanes(d, fourth));
  s.largest = std::max(s.largest, hn::GetLane(hn::MaxOfLanes(d, largest)));
  return i;
}

PowerSums power_sums_range(int64_t n, const float* x) {
  PowerSums s;
  const int64_t whole = add_powers(hn::ScalableTag<double>(), 0, n, x, s);
  add_powers(hn::CappedTag<double, 1>(), whole, n, x, s);
  return s;
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {

HWY_EXPORT(dot_range);
HWY_EXPORT(max_bits_range);
HWY_EXPORT(power_sums_range);

double dot(int64_t n, const float* x, const float* y) {
  return sum_of_blocks(n, [&](int64_t first, int64_t last) {
    return HWY_DYNAMIC_DISPATCH(dot_range)(last - first, x + first, y + first);
  });
}

double sum_of_squares(int64_t n, const float* x) {
  return dot(n, x, x);
}

float max_abs(int64_t n, const float* x) {
  int32_t largest = 0;
  for (const int32_t part : by_block<int32_t>(n, [&](int64_t first, int64_t last) {
         return HWY_DYNAMIC_DISPATCH(max_bits_range)(last - first, x + first);
       })) {
    largest = std::max(largest, part);
  }
  return std::bit_cast<float>(largest);
}

bool all_finite(int64_t n, const float* x) {
  return std::isfinite(max_abs(n, x));
}

Moments moments(int64_t n, const float* x) {
  PowerSums sum;
  for (const PowerSums& part : by_block<PowerSums>(n, [&](int64_t first, int64_t last) {
         return HWY_DYNAMIC_DISPATCH(power_sums_range)(last - first, x + first);
       })) {
    sum.zeros += part.zeros;
    sum.not_finite += part.not_finite;
    sum.first += part.first;
    sum.second += part.second;
    sum.fourth += part.fourth;
    sum.largest = std::max(sum.largest, part.largest);
  }
  Moments m;
  m.count = n;
  m.zeros = static_cast<int64_t>(sum.zeros);
  m.not_finite = static_cast<int64_t>(sum.not_finite);
  if (n == 0) return m;
  const double count = static_cast<double>(n);
  m.mean = sum.first / count;
  m.rms = std::sqrt(sum.second / count);
  m.max_abs = sum.largest;
  if (sum.second != 0) m.kurtosis = sum.fourth / sum.second * (count / sum.second);
  return m;
}

double median_abs(int64_t n, const float* x, int64_t sample) {
  PLUMB_CHECK(sample > 0, "sample of {}", sample);
  if (n == 0) return 0;
  const int64_t stride = (n + sample - 1) / sample;
  std::vector<float> values;
  for (int64_t i = 0; i < n; i += stride) values.push_back(std::abs(x[i]));
  const auto middle = values.begin() + (static_cast<int64_t>(values.size()) - 1) / 2;
  // NaN last, so that the order is strict.
  std::nth_element(values.begin(), middle, values.end(),
                   [](float a, float b) { return std::bit_cast<int32_t>(a) < std::bit_cast<int32_t>(b); });
  return *middle;
}

}  // namespace plumb
#endif  // HWY_ONCE
