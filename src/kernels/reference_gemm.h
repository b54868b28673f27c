// The slow oracle of gemm(): one loop in f64, with the roundings that the contract of gemm.h states.
#pragma once

#include "kernels/gemm.h"

namespace plumb::reference {

inline double element(const MatrixOperand& x, int64_t row, int64_t column, bool bf16_product) {
  const int64_t i = x.transposed ? column * x.ld + row : row * x.ld + column;
  const float value = x.dtype == DType::f32    ? static_cast<const float*>(x.data)[i]
                      : x.dtype == DType::bf16 ? to_float(static_cast<const BFloat16*>(x.data)[i])
                                               : to_float(static_cast<const Float16*>(x.data)[i]);
  return bf16_product ? to_float(to_bf16(value)) : value;
}

// The element (i, j) of C before [+ C], and the sum of its terms' sizes, by which its error is judged.
struct Product {
  double value = 0, size = 0;
};

inline Product product(const Gemm& g, int64_t i, int64_t j) {
  const bool bf16 = g.compute == DType::bf16 || g.a.dtype == DType::bf16 || g.b.dtype == DType::bf16;
  Product p;
  if (g.bias) p = {g.bias[j], std::abs(g.bias[j])};
  for (int64_t l = 0; l < g.k; ++l) {
    const double term = element(g.a, i, l, bf16) * element(g.b, l, j, bf16);
    p.value += term;
    p.size += std::abs(term);
  }
  return p;
}

}  // namespace plumb::reference
