#include "ops/linear.h"

#include "kernels/activation.h"
#include "kernels/convert.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"

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

// dx = dy · W into `dx`, unless that is null.
void input_gradient(DType compute, const float* dy, int64_t rows, const LinearWeights& w, GradientTarget dx) {
  if (!dx.data) return;
  gemm({.m = rows,
        .n = w.inputs(),
        .k = w.outputs(),
        .a = {dy, DType::f32, w.outputs(), false},
        .b = weight_operand(w, false),
        .c = dx.data,
        .ldc = w.inputs(),
        .add = dx.add,
        .compute = compute});
}

// dW = dyᵀ · x (or xᵀ · dy), db = column sums of dy.
void weight_gradient(DType compute, const float* dy, const Tensor& x, const LinearWeights& w) {
  const MatrixOperand dy_operand{dy, DType::f32, w.outputs(), w.in_out ? false : true};
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
  if (!w.bias.defined()) return;
  if (const GradientTarget db = gradient_target(w.bias); db.data) {
    bias_backward(x.rows(), w.outputs(), dy, db.data, db.add);
  }
}

bool recorded(const Context& context, const Tensor& x, const LinearWeights& w) {
  return context.tape &&
         (x.requires_grad() || w.weight.requires_grad() || (w.bias.defined() && w.bias.requires_grad()));
}

Tensor activated(const Tensor& x, const Tensor& bias, Activation kind) {
  Tensor h = Tensor::empty(x.shape());
  activation_forward({.kind = kind,
                      .rows = x.rows(),
                      .width = x.width(),
                      .x = x.f32(),
                      .bias = bias.defined() ? bias.f32() : nullptr,
                      .y = h.f32()});
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

Tensor gated_product(const Tensor& gate, const Tensor& up, Activation kind) {
  PLUMB_CHECK(gate.shape() == up.shape());
  Tensor h = Tensor::empty(up.shape());
  gated_forward({.kind = kind,
                 .rows = up.rows(),
                 .width = up.width(),
                 .gate = gate.f32(),
                 .gate_stride = gate.width(),
                 .up = up.f32(),
                 .up_stride = up.width(),
                 .y = h.f32()});
  return h;
}

void gated_product_backward(const Tensor& gate, const Tensor& up, Activation kind, const float* dh) {
  Tensor unwanted;
  const GradientTarget dgate = gradient_target_or(gate, unwanted), dup = gradient_target_or(up, unwanted);
  PLUMB_CHECK(dgate.add == dup.add, "gate and up are read once");
  gated_backward({.kind = kind,
                  .rows = up.rows(),
                  .width = up.width(),
                  .gate = gate.f32(),
                  .gate_stride = gate.width(),
                  .up = up.f32(),
                  .up_stride = up.width(),
                  .dy = dh,
                  .dgate = dgate.data,
                  .dgate_stride = gate.width(),
                  .dup = dup.data,
                  .dup_stride = up.width(),
                  .add = dgate.add});
}

}  // namespace

Tensor linear(Context& context, const Tensor& x, const LinearWeights& w) {
  Tensor y = product(context, x, w);
  if (!recorded(context, x, w)) return y;
  y.set_requires_grad();
  context.tape->record([x, w, result = y.gradient(), compute = context.compute] {
    const float* dy = arrived(result);
    if (!dy) return;
    weight_gradient(compute, dy, x, w);
    input_gradient(compute, dy, x.rows(), w, gradient_target(x));
  });
  return y;
}

Tensor activated_linear(Context& context, const Tensor& x, const Tensor& bias, Activation kind,
                        const LinearWeights& w) {
  PLUMB_CHECK(!bias.defined() || bias.numel() == x.width(), "a bias of {} on {}", bias.shape().str(),
              x.shape().str());
  Tensor y = product(context, activated(x, bias, kind), w);
  const bool bias_trains = bias.defined() && bias.requires_grad();
  if (!recorded(context, x, w) && !(context.tape && bias_trains)) return y;
  y.set_requires_grad();
  context.tape->record([x, bias, w, kind, bias_trains, result = y.gradient(), compute = context.compute] {
    const float* dy = arrived(result);
    if (!dy) return;
    weight_gradient(compute, dy, activated(x, bias, kind), w);
    if (!x.requires_grad() && !bias_trains) return;
    Tensor unwanted;
    const GradientTarget dx = gradient_target_or(x, unwanted);
    // The gradient of act(x) is made where dx goes when that is free, and turned into dx in place.
    const Tensor scratch = dx.add ? Tensor::empty(x.shape()) : Tensor();
    float* dh = dx.add ? scratch.f32() : dx.data;
    input_gradient(compute, dy, x.rows(), w, {dh, false});
    activated_backward(x, bias, kind, dh, dx);
  });
  return y;
}

Tensor gated_linear(Context& context, const Tensor& gate, const Tensor& up, Activation kind,
                    const LinearWeights& w) {
  if (context.plain) return linear(context, gated(context, gate, up, kind), w);
  Tensor y = product(context, gated_product(gate, up, kind), w);
  if (!recorded(context, up, w) && !context.records(gate)) return y;
  y.set_requires_grad();
  context.tape->record([gate, up, w, kind, result = y.gradient(), compute = context.compute] {
    const float* dy = arrived(result);
    if (!dy) return;
    weight_gradient(compute, dy, gated_product(gate, up, kind), w);
    if (!gate.requires_grad() && !up.requires_grad()) return;
    const Tensor dh = Tensor::empty(up.shape());
    input_gradient(compute, dy, up.rows(), w, {dh.f32(), false});
    gated_product_backward(gate, up, kind, dh.f32());
  });
  return y;
}

Tensor activation(Context& context, const Tensor& x, Activation kind) {
  Tensor y = activated(x, {}, kind);
  if (!context.records(x)) return y;
  y.set_requires_grad();
  context.tape->record([x, kind, result = y.gradient()] {
    if (const float* dy = arrived(result)) activated_backward(x, {}, kind, dy, gradient_target(x));
  });
  return y;
}

Tensor gated(Context& context, const Tensor& gate, const Tensor& up, Activation kind) {
  Tensor y = gated_product(gate, up, kind);
  if (!context.records(gate) && !context.records(up)) return y;
  y.set_requires_grad();
  context.tape->record([gate, up, kind, result = y.gradient()] {
    if (const float* dy = arrived(result)) gated_product_backward(gate, up, kind, dy);
  });
  return y;
}

}  // namespace plumb::ops
