#include "nn/rotary.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "kernels/rope.h"

namespace plumb {
namespace {

constexpr int64_t kFewestRows = 64;

// Dims that the fraction names, which frequencies count in; an odd one is turned with the next.
int64_t named_dims(const LayerConfig& c) {
  if (c.kv_rank > 0) return c.rope_dim;
  // A fraction such as 64 / 192 must not lose a dim to its rounding.
  return static_cast<int64_t>(std::floor(static_cast<double>(c.head_dim) * c.rope.fraction + 1e-6));
}

// The pair that turns `turns` times within the original length (2309.00071, eq. 17's inverse).
double pair_of(const LayerConfig& c, double turns) {
  const auto length = static_cast<double>(c.rope.original_length), dim = static_cast<double>(named_dims(c));
  return dim * std::log(length / (turns * 2 * std::numbers::pi)) / (2 * std::log(c.rope.base));
}

// Fast pairs are kept, slow ones divided by the factor, with a ramp between (2309.00071, eq. 18 to 20).
void scale_yarn(const LayerConfig& c, std::vector<double>& frequencies) {
  double low = pair_of(c, c.rope.beta_fast), high = pair_of(c, c.rope.beta_slow);
  if (c.rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(named_dims(c) - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] *= ramp / c.rope.factor + (1 - ramp);
  }
}

// The same with bounds on the wavelength; Llama 3.1.
void scale_llama3(const RopeConfig& r, std::vector<double>& frequencies) {
  const auto length = static_cast<double>(r.original_length);
  for (double& f : frequencies) {
    const double turns = length * f / (2 * std::numbers::pi);
    if (turns > r.high_frequency) continue;
    const double kept =
        turns < r.low_frequency ? 0 : (turns - r.low_frequency) / (r.high_frequency - r.low_frequency);
    f *= (1 - kept) / r.factor + kept;
  }
}

// A base by which the slowest pair turns no further in `length` than before in the original one.
double dynamic_base(const LayerConfig& c, int64_t length) {
  const auto dim = static_cast<double>(named_dims(c));
  const double longer = static_cast<double>(std::max(length, c.rope.original_length)) /
                        static_cast<double>(c.rope.original_length);
  return c.rope.base * std::pow(c.rope.factor * longer - (c.rope.factor - 1), dim / (dim - 2));
}

// Two lengths of which this is the same have the same frequencies.
int64_t frequencies_of(const RopeConfig& r, int64_t length) {
  if (r.scaling == RopeScaling::dynamic) return std::max(length, r.original_length);
  return r.scaling == RopeScaling::longrope && length > r.original_length ? 2 : 1;
}

// Rows times 1 + g log(1 + floor(position / original length)).
Tensor grown(const RopeConfig& r, const Tensor& table) {
  Tensor t = table.clone();
  for (int64_t p = 0; p < t.size(0); ++p) {
    const double times = std::floor(static_cast<double>(p) / static_cast<double>(r.original_length));
    const double by = 1 + r.query_growth * std::log1p(times);
    for (int64_t i = 0; i < t.width(); ++i) {
      float& x = t.f32()[p * t.width() + i];
      x = static_cast<float>(by * x);
    }
  }
  return t;
}

RotaryTable made(const LayerConfig& c, int64_t length, int64_t rows) {
  const RopeTable table = rope_table(rotary_frequencies(c, length), rows, rotary_factor(c));
  RotaryTable t;
  t.rotary_dim = rotary_dim(c);
  t.cos = t.query_cos = Tensor::of<float>({rows, t.rotary_dim / 2}, table.cos);
  t.sin = t.query_sin = Tensor::of<float>({rows, t.rotary_dim / 2}, table.sin);
  if (c.rope.query_growth != 0) {
    t.query_cos = grown(c.rope, t.cos);
    t.query_sin = grown(c.rope, t.sin);
  }
  return t;
}

}  // namespace

int64_t rotary_dim(const LayerConfig& c) {
  return (named_dims(c) + 1) / 2 * 2;
}

std::vector<double> rotary_frequencies(const LayerConfig& c, int64_t length) {
  const RopeConfig& r = c.rope;
  const double base = r.scaling == RopeScaling::dynamic ? dynamic_base(c, length) : r.base;
  std::vector<double> frequencies = rope_frequencies(base, named_dims(c));
  if (r.scaling == RopeScaling::linear) {
    for (double& f : frequencies) f /= r.factor;
  }
  if (r.scaling == RopeScaling::yarn) scale_yarn(c, frequencies);
  if (r.scaling == RopeScaling::llama3) scale_llama3(r, frequencies);
  if (r.scaling == RopeScaling::longrope) {
    const std::vector<double>& factors = length > r.original_length ? r.long_factors : r.short_factors;
    PLUMB_CHECK(factors.size() == frequencies.size(), "{} factors", factors.size());
    for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] /= factors[i];
  }
  return frequencies;
}

double yarn_mscale(double factor, double m) {
  return factor <= 1 ? 1 : 0.1 * m * std::log(factor) + 1;
}

double rotary_factor(const LayerConfig& c) {
  const RopeConfig& r = c.rope;
  const bool yarn = r.scaling == RopeScaling::yarn, longrope = r.scaling == RopeScaling::longrope;
  if (!yarn && !longrope) return 1;
  if (r.attention_factor != 0) return r.attention_factor;
  if (longrope) {
    const double length = static_cast<double>(r.original_length);
    return r.factor <= 1 ? 1 : std::sqrt(1 + std::log(r.factor) / std::log(length));
  }
  const bool both = r.mscale != 0 && r.mscale_all != 0;
  return yarn_mscale(r.factor, both ? r.mscale : 1) / (both ? yarn_mscale(r.factor, r.mscale_all) : 1);
}

double attention_scale(const LayerConfig& c, bool rotary) {
  const double scale =
      c.attention_scale != 0 ? c.attention_scale : 1 / std::sqrt(static_cast<double>(c.head_dim));
  if (!rotary || c.rope.scaling != RopeScaling::yarn || c.rope.mscale_all == 0) return scale;
  const double m = yarn_mscale(c.rope.factor, c.rope.mscale_all);
  return scale * m * m;
}

RotaryTable Rotary::table(int64_t length) const {
  const std::lock_guard lock(mutex_);
  const int64_t frequencies = frequencies_of(config_.rope, length);
  if (!table_.cos.defined() || frequencies != frequencies_ || table_.cos.size(0) < length) {
    const auto rows = std::bit_ceil(static_cast<uint64_t>(std::max(length, kFewestRows)));
    table_ = made(config_, length, static_cast<int64_t>(rows));
    frequencies_ = frequencies;
  }
  return table_;
}

}  // namespace plumb
