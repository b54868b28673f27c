#include "train/muon.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/reduce.h"

namespace plumb {
namespace {

constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;
constexpr int kIterations = 5;

MatrixOperand operand(const float* data, int64_t ld, bool transposed = false) {
  return {data, DType::f32, ld, transposed};
}

// Copies `width` columns of each row between matrices of different row lengths.
void copy_block(int64_t rows, int64_t width, const float* from, int64_t from_ld, float* to, int64_t to_ld) {
  for (int64_t r = 0; r < rows; ++r) std::copy_n(from + r * from_ld, width, to + r * to_ld);
}

}  // namespace

void orthogonalize(int64_t rows, int64_t columns, float* x) {
  const int64_t n = rows * columns, side = std::min(rows, columns);
  const double norm = std::sqrt(sum_of_squares(n, x));
  if (n == 0 || norm == 0) return;
  linear_combination(n, static_cast<float>(1 / (norm + 1e-7)), x, 0, nullptr, x);
  const bool wide = rows <= columns;  // A = X X^T of the shorter side, else X^T X, and B stands on the right
  const Tensor a = Tensor::empty({side, side}), b = Tensor::empty({side, side}),
               y = Tensor::empty({rows, columns});
  const auto product = [](int64_t m, int64_t width, int64_t k, MatrixOperand left, MatrixOperand right,
                          float* out) {
    gemm({.m = m, .n = width, .k = k, .a = left, .b = right, .c = out, .ldc = width});
  };
  for (int i = 0; i < kIterations; ++i) {
    product(side, side, std::max(rows, columns), operand(x, columns, !wide), operand(x, columns, wide),
            a.f32());
    product(side, side, side, operand(a.f32(), side), operand(a.f32(), side), b.f32());
    linear_combination(side * side, kB, a.f32(), kC, b.f32(), b.f32());
    if (wide) {
      product(rows, columns, rows, operand(b.f32(), side), operand(x, columns), y.f32());
    } else {
      product(rows, columns, columns, operand(x, columns), operand(b.f32(), side), y.f32());
    }
    linear_combination(n, kA, x, 1, y.f32(), x);
  }
}

void orthogonalize_parts(const Parameter& p, const Tensor& direction) {
  const int64_t outputs = p.in_out ? p.shape[1] : p.shape[0],
                inputs = p.shape.numel() / std::max<int64_t>(1, outputs);
  std::vector<InitPart> parts = p.init;
  if (parts.empty()) parts = {{outputs, 0}};
  int64_t first = 0;
  for (const InitPart& part : parts) {
    const int64_t rows = p.in_out ? inputs : part.count, columns = p.in_out ? part.count : inputs;
    float* const block = direction.f32() + (p.in_out ? first : first * inputs);
    const int64_t ld = p.shape[1];
    const Tensor x = Tensor::empty({rows, columns});
    copy_block(rows, columns, block, ld, x.f32(), columns);
    orthogonalize(rows, columns, x.f32());
    const double scale =
        std::sqrt(std::max(1.0, static_cast<double>(part.count) / static_cast<double>(inputs)));
    linear_combination(x.numel(), static_cast<float>(scale), x.f32(), 0, nullptr, x.f32());
    copy_block(rows, columns, x.f32(), columns, block, ld);
    first += part.count;
  }
}

}  // namespace plumb
