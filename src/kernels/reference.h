// The slow oracle that kernels are tested against: plain loops in f64, written from the formulas and not from
// the kernels. T is double, or std::complex<double> for derivatives by a complex step: d f / d x = Im f(x + i
// h) / h with h = 1e-30, exact to rounding for analytic f (Squire, Trapp, SIAM Review 1998). Not for use
// outside tests.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>
#include <numbers>
#include <vector>

#include "kernels/norm.h"
#include "plumb/activation.h"

namespace plumb::reference {

using Complex = std::complex<double>;
template <class T>
using Array = std::vector<T>;

inline double real(double v) {
  return v;
}
inline double real(Complex v) {
  return v.real();
}

inline Array<Complex> complex(const Array<double>& v) {
  return {v.begin(), v.end()};
}

// Gradient of a scalar function at x.
inline Array<double> gradient(const Array<double>& x,
                              const std::function<Complex(const Array<Complex>&)>& f) {
  constexpr double kStep = 1e-30;
  Array<Complex> z = complex(x);
  Array<double> g(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    z[i] = {x[i], kStep};
    g[i] = f(z).imag() / kStep;
    z[i] = x[i];
  }
  return g;
}

template <class T, class U>
T weighted_sum(const Array<T>& y, const Array<U>& weights) {
  T sum = 0;
  for (size_t i = 0; i < y.size(); ++i) sum += y[i] * T(weights[i]);
  return sum;
}

// Row norms. gain, bias: empty where there is none; gain of one element for ScaleNorm.
struct NormOptions {
  RowNorm kind = RowNorm::layer;
  int64_t width = 0;
  double gain_offset = 0, eps = 1e-5, scale = 1;
};
template <class T>
Array<T> norm(const NormOptions& o, const Array<T>& x, const Array<T>& gain, const Array<T>& bias) {
  Array<T> y(x.size());
  const double width = static_cast<double>(o.width);
  for (size_t row = 0; row < x.size(); row += o.width) {
    T mean = 0, square = 0;
    if (o.kind == RowNorm::layer) {
      for (int64_t c = 0; c < o.width; ++c) mean += x[row + c] / width;
    }
    for (int64_t c = 0; c < o.width; ++c) square += (x[row + c] - mean) * (x[row + c] - mean);
    T deviation = std::sqrt(square / width + o.eps);
    if (o.kind == RowNorm::scale) deviation = std::sqrt(real(square)) > o.eps ? std::sqrt(square) : T(o.eps);
    for (int64_t c = 0; c < o.width; ++c) {
      T factor = 1;
      if (!gain.empty()) factor = o.kind == RowNorm::scale ? gain[0] : gain[c] + o.gain_offset;
      y[row + c] = o.scale * ((x[row + c] - mean) / deviation * factor + (bias.empty() ? T(0) : bias[c]));
    }
  }
  return y;
}

template <class T>
Array<T> dyt(int64_t width, const Array<T>& x, T alpha, const Array<T>& gain, const Array<T>& bias) {
  Array<T> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = gain[i % width] * std::tanh(alpha * x[i]) + bias[i % width];
  return y;
}

// Training BatchNorm; rows with mask 0 give 0 and count for nothing.
template <class T>
Array<T> batch_norm(int64_t width, double eps, const Array<T>& x, const Array<uint8_t>& mask,
                    const Array<T>& gain, const Array<T>& bias) {
  Array<T> y(x.size(), T(0));
  const int64_t rows = static_cast<int64_t>(x.size()) / width;
  for (int64_t c = 0; c < width; ++c) {
    double count = 0;
    T mean = 0, var = 0;
    for (int64_t n = 0; n < rows; ++n) count += mask[n];
    for (int64_t n = 0; n < rows; ++n) mean += mask[n] ? x[n * width + c] / count : T(0);
    for (int64_t n = 0; n < rows; ++n) {
      const T v = x[n * width + c] - mean;
      var += mask[n] ? v * v / count : T(0);
    }
    for (int64_t n = 0; n < rows; ++n) {
      if (mask[n]) y[n * width + c] = (x[n * width + c] - mean) / std::sqrt(var + eps) * gain[c] + bias[c];
    }
  }
  return y;
}

// erf by its series about a real point: erf(a + ib) for the tiny b of a complex step.
inline double erf(double v) {
  return std::erf(v);
}
inline Complex erf(Complex v) {
  const double a = v.real();
  return {std::erf(a), v.imag() * 2 / std::sqrt(std::numbers::pi) * std::exp(-a * a)};
}

template <class T>
T activation(Activation kind, T x) {
  switch (kind) {
    case Activation::relu:
      return real(x) > 0 ? x : T(0);
    case Activation::gelu:
      return 0.5 * x * (1.0 + erf(x / std::numbers::sqrt2));
    case Activation::gelu_tanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1.0 + std::exp(-x));
    case Activation::relu_squared:
      return real(x) > 0 ? x * x : T(0);
    case Activation::gelu_sigmoid:
      return x / (1.0 + std::exp(-1.702 * x));
  }
  return x;
}

// The summed loss of cross_entropy over (N, V) logits; targets < 0 are ignored.
template <class T>
T cross_entropy(int64_t width, const Array<T>& logits, const Array<int32_t>& targets, double smoothing,
                double z_loss) {
  T loss = 0;
  for (size_t n = 0; n < targets.size(); ++n) {
    if (targets[n] < 0) continue;
    const T* row = logits.data() + n * width;
    double top = real(row[0]);
    for (int64_t v = 0; v < width; ++v) top = std::max(top, real(row[v]));
    T z = 0, sum = 0;
    for (int64_t v = 0; v < width; ++v) {
      z += std::exp(row[v] - top);
      sum += row[v];
    }
    const T log_z = std::log(z) + top;
    loss +=
        (1 - smoothing) * (log_z - row[targets[n]]) + smoothing * (log_z - sum / static_cast<double>(width));
    loss += z_loss * log_z * log_z;
  }
  return loss;
}

}  // namespace plumb::reference
