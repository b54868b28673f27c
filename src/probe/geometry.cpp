#include "probe/geometry.h"

#include <cmath>
#include <optional>

#include "base/check.h"
#include "probe/sample.h"

namespace plumb {
namespace {

constexpr int64_t kSequences = 2, kTokens = 64;

// Reduces the matrix to its diagonal and the diagonal below, off[i] beside diagonal[i] and diagonal[i + 1].
void tridiagonalize(std::vector<double>& a, int64_t n, std::vector<double>& diagonal,
                    std::vector<double>& off) {
  std::vector<double> v(n), p(n);
  for (int64_t k = 0; k + 2 < n; ++k) {
    double norm = 0;
    for (int64_t i = k + 1; i < n; ++i) norm += a[i * n + k] * a[i * n + k];
    norm = std::sqrt(norm);
    if (norm == 0) continue;
    const double pivot = a[(k + 1) * n + k], alpha = pivot > 0 ? -norm : norm;
    double square = 0;
    for (int64_t i = k + 1; i < n; ++i) {
      v[i] = a[i * n + k] - (i == k + 1 ? alpha : 0);
      square += v[i] * v[i];
    }
    double share = 0;
    for (int64_t i = k + 1; i < n; ++i) {
      p[i] = 0;
      for (int64_t j = k + 1; j < n; ++j) p[i] += a[i * n + j] * v[j];
      p[i] *= 2 / square;
      share += p[i] * v[i];
    }
    for (int64_t i = k + 1; i < n; ++i) p[i] -= share / square * v[i];
    for (int64_t i = k + 1; i < n; ++i) {
      for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= v[i] * p[j] + p[i] * v[j];
    }
    a[(k + 1) * n + k] = alpha;
  }
  for (int64_t i = 0; i < n; ++i) diagonal[i] = a[i * n + i];
  for (int64_t i = 0; i + 1 < n; ++i) off[i] = a[(i + 1) * n + i];
}

// One sweep of the implicit QL iteration over [first, last].
void sweep(std::vector<double>& d, std::vector<double>& e, int64_t first, int64_t last) {
  double g = (d[first + 1] - d[first]) / (2 * e[first]);
  double r = std::hypot(g, 1.0);
  g = d[last] - d[first] + e[first] / (g + std::copysign(r, g));
  double s = 1, c = 1, p = 0;
  for (int64_t i = last - 1; i >= first; --i) {
    double f = s * e[i];
    const double b = c * e[i];
    e[i + 1] = r = std::hypot(f, g);
    if (r == 0) {
      d[i + 1] -= p;
      e[last] = 0;
      return;
    }
    s = f / r;
    c = g / r;
    g = d[i + 1] - p;
    r = (d[i] - g) * s + 2 * c * b;
    p = s * r;
    d[i + 1] = g + p;
    g = c * r - b;
  }
  d[first] -= p;
  e[first] = g;
  e[last] = 0;
}

// Rows of a sequence that hold a real token, at most kTokens of them.
std::vector<int64_t> tokens_of(const Tensor& x, const Tensor& mask, int64_t sequence) {
  const int64_t length = x.size(1);
  std::vector<int64_t> real;
  for (int64_t t = sequence * length; t < (sequence + 1) * length; ++t) {
    if (!mask.defined() || mask.data<uint8_t>()[t] != 0) real.push_back(t);
  }
  std::vector<int64_t> rows;
  for (const int64_t i : sampled_rows(static_cast<int64_t>(real.size()), kTokens)) rows.push_back(real[i]);
  return rows;
}

std::vector<double> products(const Tensor& x, const std::vector<int64_t>& rows) {
  const auto n = static_cast<int64_t>(rows.size());
  const int64_t width = x.width();
  std::vector<double> gram(n * n);
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; ++i) {
    const float* a = x.f32() + rows[i] * width;
    for (int64_t j = 0; j <= i; ++j) {
      const float* b = x.f32() + rows[j] * width;
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t c = 0; c < width; ++c) sum += double{a[c]} * b[c];
      gram[i * n + j] = gram[j * n + i] = sum;
    }
  }
  return gram;
}

double effective_rank(std::vector<double>& gram, int64_t n) {
  double sum = 0, entropy = 0;
  const std::vector<double> values = symmetric_eigenvalues(gram, n);
  for (const double v : values) sum += std::max(v, 0.0);
  for (const double v : values) {
    if (v > 0) entropy -= v / sum * std::log(v / sum);
  }
  return std::exp(entropy);
}

// From the tokens' products alone.
std::optional<Geometry> geometry_of(std::vector<double> gram, int64_t n) {
  double squares = 0, all = 0, cosines = 0;
  for (int64_t i = 0; i < n; ++i) {
    squares += gram[i * n + i];
    for (int64_t j = 0; j < n; ++j) {
      all += gram[i * n + j];
      const double scale = std::sqrt(gram[i * n + i]) * std::sqrt(gram[j * n + j]);
      if (i != j && scale > 0) cosines += gram[i * n + j] / scale;
    }
  }
  if (!std::isfinite(all) || !std::isfinite(squares) || squares == 0) return std::nullopt;
  const auto count = static_cast<double>(n);
  return Geometry{.cosine = cosines / (count * (count - 1)),
                  .residual = std::sqrt(std::max(0.0, squares - all / count) / squares),
                  .rank = effective_rank(gram, n),
                  .sequences = 1};
}

}  // namespace

std::vector<double> symmetric_eigenvalues(std::vector<double>& matrix, int64_t n) {
  PLUMB_CHECK(static_cast<int64_t>(matrix.size()) == n * n, "{} numbers for {} rows", matrix.size(), n);
  constexpr int kSweeps = 60;  // each eigenvalue takes two or three
  std::vector<double> d(n), e(n);
  tridiagonalize(matrix, n, d, e);
  for (int64_t first = 0; first < n; ++first) {
    for (int tried = 0; tried < kSweeps; ++tried) {
      int64_t last = first;
      while (last + 1 < n && std::abs(e[last]) > 1e-16 * (std::abs(d[last]) + std::abs(d[last + 1]))) ++last;
      if (last == first) break;
      sweep(d, e, first, last);
    }
  }
  return d;
}

Geometry& Geometry::operator+=(const Geometry& o) {
  cosine += o.cosine;
  residual += o.residual;
  rank += o.rank;
  sequences += o.sequences;
  return *this;
}

Geometry token_geometry(const Tensor& x, const Tensor& mask) {
  PLUMB_CHECK(x.shape().rank() == 3, "{}", x.shape().str());
  Geometry sum;
  for (const int64_t b : sampled_rows(x.size(0), kSequences)) {
    const std::vector<int64_t> rows = tokens_of(x, mask, b);
    if (rows.size() < 2) continue;
    const auto n = static_cast<int64_t>(rows.size());
    if (const auto one = geometry_of(products(x, rows), n)) sum += *one;
  }
  return sum;
}

}  // namespace plumb
