#include "probe/measures.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/reduce.h"

namespace plumb {

void Measures::add(const Tensor& value) {
  const Moments m = moments(value.numel(), value.f32());
  const auto n = static_cast<double>(m.count);
  const double mean_square = m.rms * m.rms;
  count_ += m.count;
  not_finite_ += m.not_finite;
  sum_ += n * m.mean;
  squares_ += n * mean_square;
  fourths_ += n * m.kurtosis * mean_square * mean_square;
  max_ = m.max_abs > max_ || std::isnan(m.max_abs) ? m.max_abs : max_;
  medians_ += n * median_abs(value.numel(), value.f32(), 8192);
}

void Measures::add_gradient(const Tensor& gradient) {
  gradient_count_ += gradient.numel();
  gradient_squares_ += sum_of_squares(gradient.numel(), gradient.f32());
}

double Measures::rms() const {
  return std::sqrt(squares_ / static_cast<double>(count_));
}

double Measures::kurtosis() const {
  return squares_ == 0 ? 0 : fourths_ * static_cast<double>(count_) / (squares_ * squares_);
}

double Measures::gradient_norm() const {
  return std::sqrt(gradient_squares_);
}

double Measures::gradient_rms() const {
  return std::sqrt(gradient_squares_ / static_cast<double>(gradient_count_));
}

CosineSum row_cosines(const Tensor& a, const Tensor& b) {
  constexpr int64_t kRows = 256;
  PLUMB_CHECK(a.shape() == b.shape(), "{} and {}", a.shape().str(), b.shape().str());
  const int64_t width = a.width();
  CosineSum result{.rows = std::min(a.rows(), kRows)};
  for (int64_t i = 0; i < result.rows; ++i) {
    const int64_t row = i * a.rows() / result.rows;
    const float *x = a.f32() + row * width, *y = b.f32() + row * width;
    double xx = 0, xy = 0, yy = 0;
    for (int64_t c = 0; c < width; ++c) {
      xx += double{x[c]} * x[c];
      xy += double{x[c]} * y[c];
      yy += double{y[c]} * y[c];
    }
    const double cosine = xx > 0 && yy > 0 ? xy / (std::sqrt(xx) * std::sqrt(yy)) : 0;
    result.sum += cosine;
    result.angles += std::acos(std::clamp(cosine, -1.0, 1.0)) / std::numbers::pi;
  }
  return result;
}

CosineSum& CosineSum::operator+=(const CosineSum& o) {
  sum += o.sum;
  angles += o.angles;
  rows += o.rows;
  return *this;
}

}  // namespace plumb
