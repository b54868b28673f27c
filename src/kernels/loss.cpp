#include "kernels/loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kernels/row_blocks.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/loss.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd.h"
#include "kernels/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {

float row_max(int64_t n, const float* x) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto m0 = lowest, m1 = lowest;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    m0 = hn::Max(m0, hn::LoadU(d, x + i));
    m1 = hn::Max(m1, hn::LoadU(d, x + i + lanes));
  }
  float m = hn::GetLane(hn::MaxOfLanes(d, hn::Max(m0, m1)));
  for (; i < n; ++i) m = std::max(m, x[i]);
  return m;
}

// Sum of e^(x - top), kept in `exps` unless that is null. In f32 over short runs, which f64 adds up.
double exp_sum(int64_t n, const float* x, float top, float* exps) {
  constexpr int64_t kRun = 1024;
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const auto exp_at = [&](auto tag, int64_t i) HWY_ATTR {
    const auto e = exp_v(tag, hn::Sub(hn::LoadU(tag, x + i), hn::Set(tag, top)));
    if (exps) hn::StoreU(e, tag, exps + i);
    return e;
  };
  const int64_t lanes = hn::Lanes(d);
  double total = 0;
  int64_t i = 0;
  for (int64_t end = std::min(n, kRun); i < n; end = std::min(n, end + kRun)) {
    auto sum = hn::Zero(d);
    for (; i + lanes <= end; i += lanes) sum = hn::Add(sum, exp_at(d, i));
    total += hn::GetLane(hn::SumOfLanes(d, sum));
    for (; i < end; ++i) total += hn::GetLane(exp_at(one, i));
  }
  return total;
}

double plain_sum(int64_t n, const float* x) {
  return sum_lanes(n, [&](auto d, size_t i, auto acc) HWY_ATTR { return hn::Add(acc, load_wide(d, x + i)); });
}

// One row that has a target: adds to `sums`, and turns the row into its gradient.
void cross_entropy_row(const CrossEntropy& a, int64_t n, LossSums& sums) {
  const int64_t vocabulary = a.vocabulary;
  float* x = a.logits + n * vocabulary;
  const int32_t target = a.targets[n];
  const double smoothing = a.label_smoothing, z_loss = a.z_loss, at_target = x[target];
  const float top = row_max(vocabulary, x);
  const bool correct = x[target] == top && row_max(target, x) < top;
  const double mean = smoothing > 0 ? plain_sum(vocabulary, x) / static_cast<double>(vocabulary) : 0;
  const double z = exp_sum(vocabulary, x, top, a.gradient ? x : nullptr);
  const double log_z = top + std::log(z), nll = log_z - at_target;
  const double penalty = z_loss * log_z * log_z;
  sums.loss += nll + penalty + (smoothing > 0 ? smoothing * (at_target - mean) : 0);
  sums.nll += nll;
  sums.z_loss += penalty;
  sums.log_z += log_z;
  sums.count += 1;
  sums.correct += correct;
  if (a.row_nll) a.row_nll[n] = static_cast<float>(nll);
  if (!a.gradient) return;
  const float factor = static_cast<float>(a.scale * (1 + 2 * z_loss * log_z) / z);
  const float shift = static_cast<float>(-a.scale * smoothing / static_cast<double>(vocabulary));
  const auto smooth = [&](auto d, size_t i) HWY_ATTR {
    return hn::MulAdd(hn::LoadU(d, x + i), hn::Set(d, factor), hn::Set(d, shift));
  };
  const float to_target =
      hn::GetLane(smooth(hn::CappedTag<float, 1>(), target)) - static_cast<float>(a.scale * (1 - smoothing));
  if (a.gradient_bf16) {
    BFloat16* out = a.gradient_bf16 + n * vocabulary;
    for_lanes(vocabulary, [&](auto d, size_t i) HWY_ATTR { store_as(d, smooth(d, i), out + i); });
    out[target] = to_bf16(to_target);
  } else {
    for_lanes(vocabulary, [&](auto d, size_t i) HWY_ATTR { store_as(d, smooth(d, i), x + i); });
    x[target] = to_target;
  }
}

void log_softmax_row(int64_t n, const float* x, float* out) {
  const float top = row_max(n, x);
  const float log_sum = static_cast<float>(std::log(exp_sum(n, x, top, nullptr)));
  for_lanes(n, [&](auto d, size_t i) HWY_ATTR {
    hn::StoreU(hn::Sub(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, top)), hn::Set(d, log_sum)), d, out + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {

HWY_EXPORT(cross_entropy_row);
HWY_EXPORT(log_softmax_row);

LossSums& LossSums::operator+=(const LossSums& o) {
  loss += o.loss;
  nll += o.nll;
  z_loss += o.z_loss;
  log_z += o.log_z;
  count += o.count;
  correct += o.correct;
  return *this;
}

LossSums cross_entropy(const CrossEntropy& a) {
  PLUMB_CHECK(a.rows >= 0 && a.vocabulary > 0, "{} rows of {}", a.rows, a.vocabulary);
  PLUMB_CHECK(a.label_smoothing >= 0 && a.label_smoothing < 1, "label smoothing {}", a.label_smoothing);
  const int64_t block = rows_per_block(a.vocabulary);
  std::vector<LossSums> parts(block_count(a.rows, block));
  for_blocks(a.rows, block, [&](int64_t b, int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n) {
      const int32_t target = a.targets[n];
      if (target == kIgnore) {
        if (a.row_nll) a.row_nll[n] = 0;
        if (a.gradient_bf16) {
          std::fill_n(a.gradient_bf16 + n * a.vocabulary, a.vocabulary, BFloat16());
        } else if (a.gradient) {
          std::fill_n(a.logits + n * a.vocabulary, a.vocabulary, 0.0f);
        }
        continue;
      }
      PLUMB_CHECK(target >= 0 && target < a.vocabulary, "target {} of {}, row {}", target, a.vocabulary, n);
      HWY_DYNAMIC_DISPATCH(cross_entropy_row)(a, n, parts[b]);
    }
  });
  LossSums total;
  for (const LossSums& part : parts) total += part;
  return total;
}

double squared_error(const NumberLoss& a) {
  double sum = 0;
  for (int64_t i = 0; i < a.n; ++i) {
    const double apart = double{a.x[i]} - a.targets[i];
    sum += apart * apart;
    if (a.gradient) a.x[i] = static_cast<float>(2 * a.scale * apart);
  }
  return sum;
}

double sigmoid_cross_entropy(const NumberLoss& a) {
  double sum = 0;
  for (int64_t i = 0; i < a.n; ++i) {
    const double x = a.x[i], t = a.targets[i], small = std::exp(-std::abs(x));
    sum += std::max(x, 0.0) - t * x + std::log1p(small);
    const double p = (x >= 0 ? 1 : small) / (1 + small);
    if (a.gradient) a.x[i] = static_cast<float>(a.scale * (p - t));
  }
  return sum;
}

void log_softmax(int64_t rows, int64_t width, const float* logits, float* out) {
  for_blocks(rows, rows_per_block(width), [&](int64_t, int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n)
      HWY_DYNAMIC_DISPATCH(log_softmax_row)(width, logits + n * width, out + n * width);
  });
}

}  // namespace plumb
#endif  // HWY_ONCE
