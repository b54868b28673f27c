// What is measured of one tensor, summed up over the micro-batches of a step.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace plumb {

class Measures {
 public:
  void add(const Tensor& value);              // f32
  void add_gradient(const Tensor& gradient);  // f32

  int64_t count() const { return count_; }
  int64_t not_finite() const { return not_finite_; }
  double mean() const { return sum_ / static_cast<double>(count_); }
  double rms() const;
  double max() const { return max_; }  // of |x|; NaN if one is NaN
  // Of |x|, over at most 8192 elements of each micro-batch; the mean of the micro-batches' medians.
  double median() const { return medians_ / static_cast<double>(count_); }
  double kurtosis() const;  // about 0; 0 for all zeros

  bool has_gradient() const { return gradient_count_ > 0; }
  double gradient_norm() const;
  double gradient_rms() const;

 private:
  int64_t count_ = 0, not_finite_ = 0, gradient_count_ = 0;
  double sum_ = 0, squares_ = 0, fourths_ = 0, max_ = 0, medians_ = 0;
  double gradient_squares_ = 0;
};

// Sums over at most 256 rows at even strides of the cosine between rows of a and b, both (..., C), and of the
// angle, arccos(cosine) / pi (Li et al. 2024, arXiv 2412.13795), and how many rows that were. A row of zeros
// has cosine 0 with any.
struct CosineSum {
  double sum = 0, angles = 0;
  int64_t rows = 0;

  CosineSum& operator+=(const CosineSum& o);
};
CosineSum row_cosines(const Tensor& a, const Tensor& b);

}  // namespace plumb
