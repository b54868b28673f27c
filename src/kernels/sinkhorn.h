// Small matrices that mix n residual streams: the Sinkhorn-Knopp projection of mHC (Xie 2025, 2512.24880),
// and what a product of such matrices lets grow. All are n x n in f64, row-major, 1 <= n <= kMostStreams; any
// memory is the caller's. Not threaded.
#pragma once

#include <array>
#include <cstdint>

namespace plumb {

constexpr int64_t kMostStreams = 8;
constexpr int64_t kSinkhornSteps = 20;  // t_max of 2512.24880

// m = exp(logits), then kSinkhornSteps times: each column divided by its sum, then each row by its. So row
// sums are 1 to rounding and column sums are near 1. Any finite logits: of a column, those more than 600
// below its largest count as 600 below. `m` may be `logits`.
void sinkhorn_forward(int64_t n, const double* logits, double* m);

// The gradient of exactly these steps: dlogits = (d m / d logits)ᵀ dm. `dlogits` may be `dm`.
void sinkhorn_backward(int64_t n, const double* logits, const double* dm, double* dlogits);

// The product of maps, each applied to what those before it made: what a stack of layers does to the streams.
class StreamProduct {
 public:
  explicit StreamProduct(int64_t n);  // the identity
  void apply(const double* map);      // product = map * product

  // Of its |row sums|, by which equal streams grow on the way up, and |column sums|, by which equal gradients
  // grow on the way back (2512.24880, "Amax gain").
  struct Gain {
    double largest_row = 0, least_row = 0, largest_column = 0, least_column = 0;
    double amax() const { return largest_row > largest_column ? largest_row : largest_column; }
  };
  Gain gain() const;
  const double* values() const { return product_.data(); }

 private:
  int64_t n_;
  std::array<double, kMostStreams * kMostStreams> product_{};
};

}  // namespace plumb
