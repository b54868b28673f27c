#include "kernels/spectral.h"

#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/reduce.h"
#include "kernels/row_blocks.h"

namespace plumb {
namespace {

// y = W x, or Wᵀ x where `back`, made unit; returns the length that it had.
double unit_product(const MapView& m, bool back, const float* x, float* y) {
  const int64_t from = back ? m.outputs : m.inputs, to = back ? m.inputs : m.outputs;
  gemm({.m = 1,
        .n = to,
        .k = from,
        .a = {x, DType::f32, from, false},
        .b = {m.w, DType::f32, m.ld, back == m.in_out},
        .c = y,
        .ldc = to});
  const double length = std::sqrt(sum_of_squares(to, y));
  if (length > 0) linear_combination(to, static_cast<float>(1 / length), y, 0, nullptr, y);
  return length;
}

}  // namespace

double spectral_value(const MapView& m, const float* v, float* u) {
  const double length = unit_product(m, false, v, u);
  return length > 0 ? length / std::sqrt(sum_of_squares(m.inputs, v)) : 0;
}

double power_iteration(const MapView& m, float* v) {
  const Scratch u(m.outputs), next(m.inputs);
  const double value = spectral_value(m, v, u.data());
  if (unit_product(m, true, u.data(), next.data()) > 0) std::copy_n(next.data(), m.inputs, v);
  return value;
}

void spectral_backward(const SpectralBackward& a) {
  const int64_t rows = a.map.in_out ? a.map.inputs : a.map.outputs;
  const int64_t width = a.map.in_out ? a.map.outputs : a.map.inputs;
  const float* left = a.map.in_out ? a.v : a.u;
  const float* right = a.map.in_out ? a.u : a.v;
  const auto by = static_cast<float>(a.by / std::sqrt(sum_of_squares(a.map.inputs, a.v)));
  for_blocks(rows, rows_per_block(width), [&](int64_t, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const float factor = by * left[r];
      float* to = a.dw + r * a.map.ld;
      for (int64_t c = 0; c < width; ++c) to[c] = (a.add ? to[c] : 0) + factor * right[c];
    }
  });
}

}  // namespace plumb
