#include "ops/linear.h"

#include "kernels/activation.h"
#include "kernels/convert.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/pack.h"

namespace plumb {

Tensor owned_f32(const Tensor& stored) {
  Tensor wide = Tensor::empty(stored.shape());
  widen({.src = stored.raw(),
         .dtype = stored.dtype(),
         .rows = stored.rows(),
         .width = stored.width(),
         .ld = stored.width(),
         .dst = wide.f32()});
  return wide;
}

}  // namespace plumb

namespace plumb::ops {
namespace {

// W as the right operand of x · Wᵀ (transposed = true) or dy · W.
MatrixOperand weight_operand(const LinearWeights& w, bool transposed) {
  return {w.weight.raw(), w.weight.dtype(), w.weight.size(1), transposed != w.in_out};
}

Tensor product(Context& context, const Tensor& x, const LinearWeights& w) {
  PLUMB_CHECK(x.width() == w.inputs(), "linear: {} into {}", x.shape().str(), w.weight.shape().str());
  Tensor y = Tensor::empty(x.shape().with_width(w.outputs()));
  gemm({.m = x.rows(),
        .n = w.outputs(),
        .k = w.inputs(),
        .a = {x.raw(), x.dtype(), x.width(), false},
        .b = weight_operand(w, true),
        .c = y.f32(),
        .ldc = w.outputs(),
        .bias = w.bias.defined() ? w.bias.f32() : nullptr,
        .compute = context.compute});
  return y;
}

// dy (N, out) as both products of the backward pass read it: rounded once for the two where they are bf16.
Tensor gradient_operand(DType compute, const float* dy, int64_t rows, const LinearWeights& w) {
  const Shape shape{rows, w.outputs()};
  if (compute == DType::f32) return Tensor::view(shape, DType::f32, const_cast<float*>(dy), nullptr);
  Tensor rounded = Tensor::empty(shape, DType::bf16);
  pack_bf16({.src = dy,
             .n = rows,
             .k = w.outputs(),
             .ld = w.outputs(),
             .k_contiguous = true,
             .dst = rounded.data<BFloat16>()});
  return rounded;
}

// dx = dy · W into `dx`, unless that is null.
void input_gradient(DType compute, const Tensor& dy, const LinearWeights& w, GradientTarget dx) {
  if (!dx.data) return;
  gemm({.m = dy.rows(),
        .n = w.inputs(),
        .k = w.outputs(),
        .a = {dy.raw(), dy.dtype(), w.outputs(), false},
        .b = weight_operand(w, false),
        .c = dx.data,
        .ldc = w.inputs(),
        .add = dx.add,
        .compute = compute});
}

// dW = dyᵀ · x (or xᵀ · dy)
void weight_gradient(DType compute, const Tensor& dy, const Tensor& x, const LinearWeights& w) {
  const MatrixOperand dy_operand{dy.raw(), dy.dtype(), w.outputs(), w.in_out ? false : true};
  const MatrixOperand x_operand{x.raw(), x.dtype(), w.inputs(), w.in_out ? true : false};
  if (const GradientTarget dw = gradient_target(w.weight); dw.data) {
    gemm({.m = w.weight.size(0),
          .n = w.weight.size(1),
          .k = x.rows(),
          .a = w.in_out ? x_operand : dy_operand,
          .b = w.in_out ? dy_operand : x_operand,
          .c = dw.data,
          .ldc = w.weight.size(1),
          .add = dw.add,
          .compute = compute});
  }
}

// db = column sums of dy.
void bias_gradient(const float* dy, int64_t rows, const LinearWeights& w) {
  if (!w.bias.defined()) return;
  if (const GradientTarget db = gradient_target(w.bias); db.data) {
    bias_backward(rows, w.outputs(), dy, db.data, db.add);
  }
}

bool recorded(const Context& context, const Tensor& x, const LinearWeights& w) {
  return context.tape &&
         (x.requires_grad() || w.weight.requires_grad() || (w.bias.defined() && w.bias.requires_grad()));
}

// What only a product reads is made as the product takes it: rounded to bf16 where that rounds its operands.
float* f32_or_null(const Tensor& t) {
  return t.dtype() == DType::f32 ? t.f32() : nullptr;
}
BFloat16* bf16_or_null(const Tensor& t) {
  return t.dtype() == DType::bf16 ? t.data<BFloat16>() : nullptr;
}

Tensor activated(const Tensor& x, const Tensor& bias, Activation kind, DType dtype) {
  Tensor h = Tensor::empty(x.shape(), dtype);
  activation_forward({.kind = kind,
                      .rows = x.rows(),
                      .width = x.width(),
                      .x = x.f32(),
                      .bias = bias.defined() ? bias.f32() : nullptr,
                      .y = f32_or_null(h),
                      .y_bf16 = bf16_or_null(h)});
  return h;
}

// Of act(x + bias), from dh; dh may be where dx goes, if nothing is there yet.
void activated_backward(const Tensor& x, const Tensor& bias, Activation kind, const float* dh,
                        GradientTarget dx) {
  const GradientTarget dbias = bias.defined() ? gradient_target(bias) : GradientTarget();
  activation_backward({.kind = kind,
                       .rows = x.rows(),
                       .width = x.width(),
                       .x = x.f32(),
                       .bias = bias.defined() ? bias.f32() : nullptr,
                       .dy = dh,
                       .dx = dx.data,
                       .dbias = dbias.data,
                       .add_x = dx.add,
                       .add_bias = dbias.add});
}

// Of act(gate) * up: up is undefined where gate holds both.
int64_t gated_width(const Tensor& gate, const Tensor& up) {
  PLUMB_CHECK(!up.defined() || gate.shape() == up.shape());
  return up.defined() ? up.width() : gate.width() / 2;
}

Tensor gated_product(const Tensor& gate, const Tensor& up, Activation kind, DType dtype) {
  const int64_t width = gated_width(gate, up);
  Tensor h = Tensor::empty(gate.shape().with_width(width), dtype);
  gated_forward({.kind = kind,
                 .rows = gate.rows(),
                 .width = width,
                 .gate = gate.f32(),
                 .gate_stride = gate.width(),
                 .up = up.defined() ? up.f32() : gate.f32() + width,
                 .up_stride = gate.width(),
                 .y = f32_or_null(h),
                 .y_bf16 = bf16_or_null(h)});
  return h;
}

void gated_product_backward(const Tensor& gate, const Tensor& up, Activation kind, const float* dh) {
  Tensor unwanted;
  const int64_t width = gated_width(gate, up);
  const GradientTarget dgate = gradient_target_or(gate, unwanted);
  const GradientTarget dup =
      up.defined() ? gradient_target_or(up, unwanted) : GradientTarget{dgate.data + width, dgate.add};
  PLUMB_CHECK(dgate.add == dup.add, "gate and up are read once");
  gated_backward({.kind = kind,
                  .rows = gate.rows(),
                  .width = width,
                  .gate = gate.f32(),
                  .gate_stride = gate.width(),
                  .up = up.defined() ? up.f32() : gate.f32() + width,
                  .up_stride = gate.width(),
                  .dy = dh,
                  .dgate = dgate.data,
                  .dgate_stride = gate.width(),
                  .dup = dup.data,
                  .dup_stride = gate.width(),
                  .add = dgate.add});
}

bool either_trains(const Tensor& gate, const Tensor& up) {
  return gate.requires_grad() || (up.defined() && up.requires_grad());
}

}  // namespace

Tensor linear(Context& context, const Tensor& x, const LinearWeights& w) {
  Tensor y = product(context, x, w);
  if (!recorded(context, x, w)) return y;
  y.set_requires_grad();
  context.tape->record([x, w, result = y.gradient(), compute = context.compute] {
    const float* dy = arrived(result);
    if (!dy) return;
    bias_gradient(dy, x.rows(), w);
    linear_backward(compute, gradient_operand(compute, dy, x.rows(), w), x, w);
  });
  return y;
}

void linear_backward(DType compute, const Tensor& dy, const Tensor& x, const LinearWeights& w) {
  weight_gradient(compute, dy, x, w);
  input_gradient(compute, dy, w, gradient_target(x));
}

Tensor activated_linear(Context& context, const Tensor& x, const Tensor& bias, Activation kind,
                        const LinearWeights& w) {
  PLUMB_CHECK(!bias.defined() || bias.numel() == x.width(), "a bias of {} on {}", bias.shape().str(),
              x.shape().str());
  Tensor y = product(context, activated(x, bias, kind, context.compute), w);
  const bool bias_trains = bias.defined() && bias.requires_grad();
  if (!recorded(context, x, w) && !(context.tape && bias_trains)) return y;
  y.set_requires_grad();
  context.tape->record([x, bias, w, kind, bias_trains, result = y.gradient(), compute = context.compute] {
    const float* dy_f32 = arrived(result);
    if (!dy_f32) return;
    bias_gradient(dy_f32, x.rows(), w);
    const Tensor dy = gradient_operand(compute, dy_f32, x.rows(), w);
    weight_gradient(compute, dy, activated(x, bias, kind, compute), w);
    if (!x.requires_grad() && !bias_trains) return;
    Tensor unwanted;
    const GradientTarget dx = gradient_target_or(x, unwanted);
    // The gradient of act(x) is made where dx goes when that is free, and turned into dx in place.
    const Tensor scratch = dx.add ? Tensor::empty(x.shape()) : Tensor();
    float* dh = dx.add ? scratch.f32() : dx.data;
    input_gradient(compute, dy, w, {dh, false});
    activated_backward(x, bias, kind, dh, dx);
  });
  return y;
}

Tensor gated_linear(Context& context, const Tensor& gate, const Tensor& up, Activation kind,
                    const LinearWeights& w) {
  if (context.plain) return linear(context, gated(context, gate, up, kind), w);
  Tensor y = product(context, gated_product(gate, up, kind, context.compute), w);
  if (!recorded(context, gate, w) && !(context.tape && either_trains(gate, up))) return y;
  y.set_requires_grad();
  context.tape->record([gate, up, w, kind, result = y.gradient(), compute = context.compute] {
    const float* dy_f32 = arrived(result);
    if (!dy_f32) return;
    bias_gradient(dy_f32, gate.rows(), w);
    const Tensor dy = gradient_operand(compute, dy_f32, gate.rows(), w);
    weight_gradient(compute, dy, gated_product(gate, up, kind, compute), w);
    if (!either_trains(gate, up)) return;
    const Tensor dh = Tensor::empty(gate.shape().with_width(w.inputs()));
    input_gradient(compute, dy, w, {dh.f32(), false});
    gated_product_backward(gate, up, kind, dh.f32());
  });
  return y;
}

Tensor activation(Context& context, const Tensor& x, Activation kind) {
  Tensor y = activated(x, {}, kind, DType::f32);
  if (!context.records(x)) return y;
  y.set_requires_grad();
  context.tape->record([x, kind, result = y.gradient()] {
    if (const float* dy = arrived(result)) activated_backward(x, {}, kind, dy, gradient_target(x));
  });
  return y;
}

Tensor gated(Context& context, const Tensor& gate, const Tensor& up, Activation kind) {
  Tensor y = gated_product(gate, up, kind, DType::f32);
  if (!context.tape || !either_trains(gate, up)) return y;
  y.set_requires_grad();
  context.tape->record([gate, up, kind, result = y.gradient()] {
    if (const float* dy = arrived(result)) gated_product_backward(gate, up, kind, dy);
  });
  return y;
}

}  // namespace plumb::ops
