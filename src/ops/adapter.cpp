#include "ops/adapter.h"

#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/scale.h"
#include "kernels/unit.h"
#include "ops/embedding.h"
#include "ops/norm.h"
#include "ops/scale.h"

namespace plumb::ops {
namespace {

Tensor times(Context& context, const Tensor& x, double factor) {
  return norm(context, x, {.kind = NormKind::none}, factor);
}

// W + scale B A.
Tensor moved(const LinearWeights& w, const AdapterWeights& adapter) {
  Tensor sum = owned_f32(w.weight);
  const Tensor a = adapter.a.dtype() == DType::f32 ? adapter.a : owned_f32(adapter.a),
               b = owned_f32(adapter.b);
  linear_combination(b.numel(), static_cast<float>(adapter.scale), b.f32(), 0, nullptr, b.f32());
  const int64_t rank = a.size(0);
  const auto left = [](const Tensor& t, bool transposed) {
    return MatrixOperand{t.raw(), DType::f32, t.width(), transposed};
  };
  gemm({.m = sum.size(0),
        .n = sum.size(1),
        .k = rank,
        .a = w.in_out ? left(a, true) : left(b, false),
        .b = w.in_out ? left(b, true) : left(a, false),
        .c = sum.f32(),
        .ldc = sum.width(),
        .add = true});
  return sum;
}

}  // namespace

Tensor adapted_linear(Context& context, const Tensor& x, const LinearWeights& w,
                      const AdapterWeights& adapter) {
  const Tensor read = dropout(context, x, adapter.dropout, adapter.site);
  const Tensor narrow = times(context, linear(context, read, {adapter.a, {}, false}), adapter.scale);
  const Tensor change = linear(context, narrow, {adapter.b, {}, false});
  if (!adapter.magnitude.defined()) return add(context, linear(context, x, w), change);
  const Tensor row = adapter.magnitude.reshape({1, w.outputs()});
  const Tensor by = scale_columns(context, row, {.v = adapter.inverse_norm}).reshape({w.outputs()});
  const Tensor whole = add(context, linear(context, read, {w.weight, {}, w.in_out}), change);
  Tensor y = scale_columns(context, whole, {.v = by});
  if (read.raw() != x.raw())
    return add(context, y, linear(context, add(context, x, times(context, read, -1)), w));
  if (w.bias.defined()) {
    PLUMB_CHECK(!w.bias.requires_grad(), "a bias that trains beside DoRA");
    bias_forward(y.rows(), y.width(), y.f32(), w.bias.f32(), y.f32());
  }
  return y;
}

Tensor merged(const LinearWeights& w, const AdapterWeights& adapter) {
  Tensor sum = moved(w, adapter);
  if (!adapter.magnitude.defined()) return sum;
  Tensor by = Tensor::empty({w.outputs()});
  inverse_lengths(sum.size(0), sum.size(1), w.in_out, sum.f32(), by.f32());
  multiply(by.numel(), by.f32(), adapter.magnitude.f32(), by.f32(), false);
  scale_forward({.rows = sum.size(0),
                 .width = sum.size(1),
                 .by_row = !w.in_out,
                 .x = sum.f32(),
                 .v = by.f32(),
                 .y = sum.f32()});
  return sum;
}

void follow(const LinearWeights& w, const AdapterWeights& adapter) {
  const Tensor sum = moved(w, adapter);
  inverse_lengths(sum.size(0), sum.size(1), w.in_out, sum.f32(), adapter.inverse_norm.f32());
}

}  // namespace plumb::ops
