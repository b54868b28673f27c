// The tests' matrices for products, and the comparison with the oracle.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "kernels/reference_gemm.h"

namespace plumb {

// A stored matrix with a gap of NaN after each row, starting off alignment.
struct Matrix {
  Matrix(int64_t rows, int64_t width, DType dtype, bool transposed, uint64_t seed, int64_t gap = 3)
      : memory((rows * width + (rows + width) * gap + 1) * 8) {
    if (transposed) std::swap(rows, width);
    operand = {memory.data() + dtype_size(dtype), dtype, width + gap, transposed};
    for (int64_t i = 0; i < rows * operand.ld; ++i) {
      const bool inside = i % operand.ld < width;
      const float x = inside ? static_cast<float>(random_normal({seed, 1}, i)) : std::nanf("");
      char* p = memory.data() + (i + 1) * dtype_size(dtype);
      const BFloat16 b = to_bf16(x);
      const Float16 h = to_f16(x);
      std::memcpy(p,
                  dtype == DType::f32    ? static_cast<const void*>(&x)
                  : dtype == DType::bf16 ? static_cast<const void*>(&b)
                                         : &h,
                  dtype_size(dtype));
    }
  }
  std::vector<char> memory;
  MatrixOperand operand;
};

struct GemmCase {
  int64_t m, n, k;
  DType a = DType::f32, b = DType::f32, compute = DType::f32;
};

using GemmFunction = void (*)(const Gemm&);

// Sums of k terms in f32 in any order: at most about k/2 roundings of half an ulp of the sum of sizes; in
// practice far fewer, so sqrt(k) of them.
inline void expect_product(const GemmCase& c, GemmFunction function, bool a_transposed, bool b_transposed,
                           bool bias, bool add) {
  SCOPED_TRACE(testing::Message() << c.m << " " << c.n << " " << c.k << " a " << dtype_name(c.a)
                                  << a_transposed << " b " << dtype_name(c.b) << b_transposed << " "
                                  << dtype_name(c.compute) << " bias " << bias << " add " << add);
  const Matrix a(c.m, c.k, c.a, a_transposed, 1), b(c.k, c.n, c.b, b_transposed, 2);
  const int64_t ldc = c.n + 2;
  std::vector<float> out(c.m * ldc + 1, add ? 0.5f : std::nanf("")), biases(c.n);
  for (int64_t j = 0; j < c.n; ++j) biases[j] = static_cast<float>(random_normal({3, 1}, j));
  for (int64_t i = 0; i < c.m; ++i) out[i * ldc + c.n] = 77.0f;
  const Gemm g{.m = c.m,
               .n = c.n,
               .k = c.k,
               .a = a.operand,
               .b = b.operand,
               .c = out.data(),
               .ldc = ldc,
               .bias = bias ? biases.data() : nullptr,
               .add = add,
               .compute = c.compute};
  function(g);
  for (int64_t i = 0; i < c.m; ++i) {
    for (int64_t j = 0; j < c.n; ++j) {
      const auto p = reference::product(g, i, j);
      const double right = p.value + (add ? 0.5 : 0.0);
      const double tolerance = 6e-8 * (2 + std::sqrt(static_cast<double>(c.k))) * (p.size + 0.5);
      ASSERT_NEAR(out[i * ldc + j], right, tolerance) << "at " << i << ", " << j;
    }
    ASSERT_EQ(out[i * ldc + c.n], 77.0f) << "beyond row " << i;
  }
}

inline void expect_products(const GemmCase& c, GemmFunction function = gemm) {
  for (int bits = 0; bits < 16; ++bits) {
    expect_product(c, function, bits & 1, bits & 2, bits & 4, bits & 8);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace plumb
