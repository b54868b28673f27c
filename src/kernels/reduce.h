// Reductions over whole f32 arrays, for clipping, guards and the probe. Sums are f64, over fixed blocks in
// order: no result depends on the number of threads, bit for bit. Empty arrays: 0, or true for all_finite.
// Threads: OpenMP inside.
#pragma once

#include <cstdint>

namespace plumb {

double sum_of_squares(int64_t n, const float* x);
double dot(int64_t n, const float* x, const float* y);
float max_abs(int64_t n, const float* x);  // NaN if one is NaN
bool all_finite(int64_t n, const float* x);

// One pass over the array. Where some are not finite, the sums are not either and `not_finite` says how many
// there are.
struct Moments {
  int64_t count = 0;
  int64_t zeros = 0;
  int64_t not_finite = 0;
  double mean = 0;
  double rms = 0;
  double max_abs = 0;
  double kurtosis =
      0;  // mean(x^4) / mean(x^2)^2 about 0: 3 for a normal, C for one outlier among C; 0 for all zeros
};
Moments moments(int64_t n, const float* x);

// Median of |x| (the lower one of two), over at most `sample` elements at even strides.
double median_abs(int64_t n, const float* x, int64_t sample = 65536);

}  // namespace plumb
