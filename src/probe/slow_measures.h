// The probe's measures again, for its tests: straight loops in f64 over captured values.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "base/random.h"

namespace plumb::probe_test {

// Eigenvalues of a symmetric matrix by Jacobi's rotations.
inline std::vector<double> jacobi_eigenvalues(std::vector<double> a, int64_t n) {
  for (int sweep = 0; sweep < 60; ++sweep) {
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        if (a[p * n + q] == 0) continue;
        const double angle = 0.5 * std::atan2(2 * a[p * n + q], a[q * n + q] - a[p * n + p]);
        const double c = std::cos(angle), s = std::sin(angle);
        for (int64_t k = 0; k < n; ++k) {
          const double x = a[k * n + p], y = a[k * n + q];
          a[k * n + p] = c * x - s * y;
          a[k * n + q] = s * x + c * y;
        }
        for (int64_t k = 0; k < n; ++k) {
          const double x = a[p * n + k], y = a[q * n + k];
          a[p * n + k] = c * x - s * y;
          a[q * n + k] = s * x + c * y;
        }
      }
    }
  }
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(a[i * n + i]);
  return values;
}

struct SlowGeometry {
  double cosine = 0, residual = 0, rank = 0;
  SlowGeometry& operator+=(const SlowGeometry& o) {
    cosine += o.cosine, residual += o.residual, rank += o.rank;
    return *this;
  }
};

// x (n, width).
inline SlowGeometry slow_geometry(const std::vector<double>& x, int64_t n, int64_t width) {
  SlowGeometry g;
  std::vector<double> mean(width), covariance(width * width);
  double all = 0, left = 0, pairs = 0;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < width; ++c) mean[c] += x[i * width + c] / static_cast<double>(n);
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < width; ++c) {
      all += std::pow(x[i * width + c], 2);
      left += std::pow(x[i * width + c] - mean[c], 2);
      for (int64_t d = 0; d < width; ++d) covariance[c * width + d] += x[i * width + c] * x[i * width + d];
    }
    for (int64_t j = 0; j < i; ++j) {
      double xx = 0, xy = 0, yy = 0;
      for (int64_t c = 0; c < width; ++c) {
        const double a = x[i * width + c], b = x[j * width + c];
        xx += a * a, xy += a * b, yy += b * b;
      }
      g.cosine += xy / std::sqrt(xx * yy);
      pairs += 1;
    }
  }
  g.cosine /= pairs;
  g.residual = std::sqrt(left / all);
  double entropy = 0;
  for (const double v : jacobi_eigenvalues(covariance, width)) {
    if (v > 0) entropy -= v / all * std::log(v / all);
  }
  g.rank = std::exp(entropy);
  return g;
}

}  // namespace plumb::probe_test
