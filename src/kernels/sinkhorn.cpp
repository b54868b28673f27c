#include "kernels/sinkhorn.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace plumb {
namespace {

using Square = std::array<double, kMostStreams * kMostStreams>;
using Line = std::array<double, kMostStreams>;

// The steps as factors: after step t the matrix is u_t[i] k[i, j] v_t[j].
struct Scaling {
  Square k;
  std::array<Line, kSinkhornSteps + 1> u, v;
};

// The first step divides by column, so a column's largest logit may be taken from it first: no sum is 0.
Scaling scaling_of(int64_t n, const double* logits) {
  constexpr double kLeast = -600;  // e^-600 and its inverse are normal numbers
  PLUMB_CHECK(n >= 1 && n <= kMostStreams, "{} streams", n);
  Scaling s;
  for (int64_t j = 0; j < n; ++j) {
    double top = logits[j];
    for (int64_t i = 1; i < n; ++i) top = std::max(top, logits[i * n + j]);
    for (int64_t i = 0; i < n; ++i) s.k[i * n + j] = std::exp(std::max(logits[i * n + j] - top, kLeast));
  }
  s.u[0].fill(1);
  for (int64_t t = 1; t <= kSinkhornSteps; ++t) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += s.k[i * n + j] * s.u[t - 1][i];
      s.v[t][j] = 1 / sum;
    }
    for (int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += s.k[i * n + j] * s.v[t][j];
      s.u[t][i] = 1 / sum;
    }
  }
  return s;
}

}  // namespace

void sinkhorn_forward(int64_t n, const double* logits, double* m) {
  const Scaling s = scaling_of(n, logits);
  const Line &u = s.u[kSinkhornSteps], &v = s.v[kSinkhornSteps];
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) m[i * n + j] = u[i] * s.k[i * n + j] * v[j];
  }
}

void sinkhorn_backward(int64_t n, const double* logits, const double* dm, double* dlogits) {
  const Scaling s = scaling_of(n, logits);
  Square dk{};
  Line du{};
  for (int64_t t = kSinkhornSteps; t > 0; --t) {
    const Line &u = s.u[t], &v = s.v[t], &before = s.u[t - 1];
    Line dv{};
    if (t == kSinkhornSteps) {  // m = u k v
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          const double d = dm[i * n + j], k = s.k[i * n + j];
          dk[i * n + j] += u[i] * d * v[j];
          du[i] += d * k * v[j];
          dv[j] += d * u[i] * k;
        }
      }
    }
    for (int64_t i = 0; i < n; ++i) {  // u = 1 / (k v)
      const double d = -(du[i] * u[i]) * u[i];
      for (int64_t j = 0; j < n; ++j) {
        dk[i * n + j] += d * v[j];
        dv[j] += d * s.k[i * n + j];
      }
    }
    du.fill(0);
    for (int64_t j = 0; j < n; ++j) {  // v = 1 / (kT u)
      const double d = -(dv[j] * v[j]) * v[j];
      for (int64_t i = 0; i < n; ++i) {
        dk[i * n + j] += d * before[i];
        du[i] += d * s.k[i * n + j];
      }
    }
  }
  for (int64_t i = 0; i < n * n; ++i) dlogits[i] = dk[i] * s.k[i];
}

StreamProduct::StreamProduct(int64_t n) : n_(n) {
  PLUMB_CHECK(n >= 1 && n <= kMostStreams, "{} streams", n);
  for (int64_t i = 0; i < n; ++i) product_[i * n + i] = 1;
}

void StreamProduct::apply(const double* map) {
  Square next{};
  for (int64_t i = 0; i < n_; ++i) {
    for (int64_t k = 0; k < n_; ++k) {
      for (int64_t j = 0; j < n_; ++j) next[i * n_ + j] += map[i * n_ + k] * product_[k * n_ + j];
    }
  }
  product_ = next;
}

StreamProduct::Gain StreamProduct::gain() const {
  Line row{}, column{};
  for (int64_t i = 0; i < n_; ++i) {
    for (int64_t j = 0; j < n_; ++j) {
      row[i] += product_[i * n_ + j];
      column[j] += product_[i * n_ + j];
    }
  }
  const auto size = [](double a, double b) { return std::abs(a) < std::abs(b); };
  const auto rows = std::minmax_element(row.begin(), row.begin() + n_, size),
             columns = std::minmax_element(column.begin(), column.begin() + n_, size);
  return {std::abs(*rows.second), std::abs(*rows.first), std::abs(*columns.second), std::abs(*columns.first)};
}

}  // namespace plumb
