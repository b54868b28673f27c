#include "probe/stream_measures.h"

#include <algorithm>
#include <cmath>

#include "kernels/reduce.h"
#include "probe/sample.h"

namespace plumb {
namespace {

constexpr int64_t kMostRows = 64;

std::vector<int64_t> real_rows(int64_t rows, const Tensor& mask) {
  std::vector<int64_t> real;
  real.reserve(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    if (!mask.defined() || mask.data<uint8_t>()[r] != 0) real.push_back(r);
  }
  std::vector<int64_t> some = sampled_rows(static_cast<int64_t>(real.size()), kMostRows);
  for (int64_t& r : some) r = real[r];
  return some;
}

// Mean over pairs of n vectors of their cosine.
double mean_cosine(const float* x, int64_t n, int64_t width) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      const float *a = x + i * width, *b = x + j * width;
      const double size = std::sqrt(sum_of_squares(width, a) * sum_of_squares(width, b));
      if (size != 0) sum += dot(width, a, b) / size;
    }
  }
  return 2 * sum / static_cast<double>(n * (n - 1));
}

}  // namespace

void StreamProducts::apply(const Tensor& res, const Tensor& mask) {
  const int64_t n = res.width();
  if (products_.empty()) {
    rows_ = real_rows(res.size(0), mask);
    products_.assign(rows_.size(), StreamProduct(n));
  }
  for (size_t i = 0; i < rows_.size(); ++i) {
    const float* row = res.f32() + rows_[i] * n * n;
    const std::vector<double> map(row, row + n * n);
    products_[i].apply(map.data());
  }
}

void StreamMeasures::add(const StreamProducts& products, const Tensor& x, int64_t n) {
  for (size_t i = 0; i < products.rows().size(); ++i) {
    cosine += mean_cosine(x.f32() + products.rows()[i] * x.width(), n, x.width() / n);
    const StreamProduct::Gain g = products.products()[i].gain();
    if (!gain) gain = g;
    gain->largest_row = std::max(gain->largest_row, g.largest_row);
    gain->least_row = std::min(gain->least_row, g.least_row);
    gain->largest_column = std::max(gain->largest_column, g.largest_column);
    gain->least_column = std::min(gain->least_column, g.least_column);
    ++rows;
  }
}

}  // namespace plumb
