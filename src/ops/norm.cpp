#include "ops/norm.h"

#include "kernels/elementwise.h"
#include "kernels/norm.h"
#include "kernels/scale.h"

namespace plumb::ops {
namespace {

const float* values(const Tensor& t) {
  return t.defined() ? t.f32() : nullptr;
}
GradientTarget target_or_null(const Tensor& t) {
  return t.defined() ? gradient_target(t) : GradientTarget{};
}

bool is_row_norm(NormKind kind) {
  return kind == NormKind::layer_norm || kind == NormKind::rms_norm || kind == NormKind::scale_norm;
}

RowNorm row_norm(NormKind kind) {
  if (kind == NormKind::layer_norm) return RowNorm::layer;
  return kind == NormKind::rms_norm ? RowNorm::rms : RowNorm::scale;
}

::plumb::Gate kernel_gate(const Addition& a) {
  if (!a.gate.defined()) return {.constant = static_cast<float>(a.gate_constant)};
  return {.values = a.gate.f32(), .per_column = a.gate.numel() != 1};
}

bool has_gradient(const Tensor& t) {
  return t.defined() && t.requires_grad();
}

bool recorded(const Context& context, const Tensor& x, const NormWeights& w) {
  return context.tape &&
         (x.requires_grad() || has_gradient(w.gain) || has_gradient(w.bias) || has_gradient(w.alpha));
}

bool recorded(const Context& context, const Addition& a) {
  return context.tape && (a.x.requires_grad() || a.branch.requires_grad() || has_gradient(a.gate));
}

// Hands the memory of a gradient that is no longer needed to `to`, if nothing was written there yet.
bool move_gradient(const std::shared_ptr<Gradient>& from, const Tensor& to) {
  const auto& slot = to.gradient();
  if (!slot || slot->written || !from || !from->value || !from->written) return false;
  slot->value = std::move(from->value);
  slot->written = true;
  from->written = false;
  return true;
}

// Where the gradients of x and branch go. The stream's gradient lives in one buffer through the whole depth:
// it is handed from sum to x, and the branch shares it where both factors are 1. That is safe because the
// records of the branch, which read it, run before the norm that fed the branch adds to it.
struct AdditionTargets {
  GradientTarget stream, branch, gate;
  bool in_place = false;  // stream.data holds the gradient of the sum (or of y) that is to be turned into dx
};

AdditionTargets addition_targets(const Addition& a, const std::shared_ptr<Gradient>& reusable) {
  AdditionTargets t;
  t.in_place = move_gradient(reusable, a.x);
  t.stream = t.in_place ? GradientTarget{a.x.gradient()->value->f32(), false} : gradient_target(a.x);
  const bool same = a.alpha == 1 && a.gate_constant == 1 && !a.gate.defined();
  const auto& slot = a.branch.gradient();
  if (same && !a.branch_read_again && slot && !slot->written && t.stream.data && !t.stream.add) {
    slot->value = std::make_unique<Tensor>(*a.x.gradient()->value);
    slot->written = true;
  } else {
    t.branch = gradient_target(a.branch);
  }
  t.gate = target_or_null(a.gate);
  return t;
}

// What the backward pass needs of an addition: the branch's values only for a learned gate's gradient.
Addition for_backward(const Addition& a) {
  Addition kept = a;
  kept.x = a.x.without_data();
  if (!a.gate.defined()) kept.branch = a.branch.without_data();
  return kept;
}

void residual_backward_of(const Addition& a, const std::shared_ptr<Gradient>& sum) {
  if (!arrived(sum)) return;
  const Tensor dy = *sum->value;
  const AdditionTargets t = addition_targets(a, sum);
  if (t.in_place && a.alpha == 1 && !t.branch.data && !t.gate.data) return;
  residual_backward({.rows = a.x.rows(),
                     .width = a.x.width(),
                     .dy = dy.f32(),
                     .branch = a.branch.f32(),
                     .alpha = static_cast<float>(a.alpha),
                     .gate = kernel_gate(a),
                     .dx = t.stream.data,
                     .dbranch = t.branch.data,
                     .dgate = t.gate.data,
                     .add_x = t.stream.add,
                     .add_branch = t.branch.add,
                     .add_gate = t.gate.add});
}

// A row norm that was run: what it normed (x, or the sum), and its statistics where the backward needs them.
struct RowNormRun {
  NormWeights w;
  double s;
  Tensor normed, stats;
};

// What a norm has with an addition before it and without.
NormForward forward_of(const RowNormRun& n) {
  return {.kind = row_norm(n.w.kind),
          .rows = n.normed.rows(),
          .width = n.normed.width(),
          .gain = values(n.w.gain),
          .bias = values(n.w.bias),
          .gain_offset = n.w.unit_offset ? 1.0f : 0.0f,
          .eps = static_cast<float>(n.w.eps),
          .scale = static_cast<float>(n.s),
          .stats = n.stats.defined() ? n.stats.data<double>() : nullptr};
}

NormBackward backward_of(const RowNormRun& n, const float* dy) {
  const GradientTarget dgain = target_or_null(n.w.gain), dbias = target_or_null(n.w.bias);
  return {.kind = row_norm(n.w.kind),
          .rows = n.normed.rows(),
          .width = n.normed.width(),
          .dy = dy,
          .sum = n.normed.f32(),
          .stats = n.stats.data<double>(),
          .gain = values(n.w.gain),
          .gain_offset = n.w.unit_offset ? 1.0f : 0.0f,
          .eps = static_cast<float>(n.w.eps),
          .scale = static_cast<float>(n.s),
          .dgain = dgain.data,
          .dbias = dbias.data,
          .add_gain = dgain.add,
          .add_bias = dbias.add};
}

Tensor row_norm_op(Context& context, const Tensor& x, const NormWeights& w, double s) {
  Tensor y = Tensor::empty(x.shape());
  const bool record = recorded(context, x, w);
  const RowNormRun run{w, s, x, record ? Tensor::empty({x.rows(), 2}, DType::f64) : Tensor()};
  NormForward f = forward_of(run);
  f.x = x.f32();
  f.y = y.f32();
  norm_forward(f);
  if (!record) return y;
  y.set_requires_grad();
  context.tape->record([run, result = y.gradient()] {
    const float* dy = arrived(result);
    if (!dy) return;
    const GradientTarget dx = gradient_target(run.normed);
    NormBackward b = backward_of(run, dy);
    b.d_stream = dx.data;
    b.add_stream = dx.add;
    norm_backward(b);
  });
  return y;
}

Tensor dyt_op(Context& context, const Tensor& x, const NormWeights& w) {
  Tensor y = Tensor::empty(x.shape());
  dyt_forward({.rows = x.rows(),
               .width = x.width(),
               .x = x.f32(),
               .alpha = w.alpha.f32(),
               .gain = values(w.gain),
               .bias = values(w.bias),
               .y = y.f32()});
  if (!recorded(context, x, w)) return y;
  y.set_requires_grad();
  context.tape->record([x, w, result = y.gradient()] {
    const float* dy = arrived(result);
    if (!dy) return;
    const GradientTarget dx = gradient_target(x), dalpha = target_or_null(w.alpha),
                         dgain = target_or_null(w.gain), dbias = target_or_null(w.bias);
    dyt_backward({.rows = x.rows(),
                  .width = x.width(),
                  .x = x.f32(),
                  .dy = dy,
                  .alpha = w.alpha.f32(),
                  .gain = values(w.gain),
                  .dx = dx.data,
                  .dalpha = dalpha.data,
                  .dgain = dgain.data,
                  .dbias = dbias.data,
                  .add_x = dx.add,
                  .add_alpha = dalpha.add,
                  .add_gain = dgain.add,
                  .add_bias = dbias.add});
  });
  return y;
}

Tensor batch_norm_op(Context& context, const Tensor& x, const NormWeights& w, const Tensor& row_mask) {
  Tensor y = Tensor::empty(x.shape());
  const bool record = recorded(context, x, w);
  const Tensor stats = record ? Tensor::empty({x.width(), 2}, DType::f64) : Tensor();
  const uint8_t* mask = row_mask.defined() ? row_mask.data<uint8_t>() : nullptr;
  batch_norm_forward({.rows = x.rows(),
                      .width = x.width(),
                      .x = x.f32(),
                      .mask = mask,
                      .gain = values(w.gain),
                      .bias = values(w.bias),
                      .eps = static_cast<float>(w.eps),
                      .training = context.training,
                      .running_mean = context.again ? nullptr : w.running_mean.f32(),
                      .running_var = context.again ? nullptr : w.running_var.f32(),
                      .y = y.f32(),
                      .stats = record ? stats.data<double>() : nullptr});
  if (!record) return y;
  y.set_requires_grad();
  context.tape->record([x, w, stats, row_mask, result = y.gradient(), training = context.training] {
    const float* dy = arrived(result);
    if (!dy) return;
    const GradientTarget dx = gradient_target(x), dgain = target_or_null(w.gain),
                         dbias = target_or_null(w.bias);
    batch_norm_backward({.rows = x.rows(),
                         .width = x.width(),
                         .x = x.f32(),
                         .mask = row_mask.defined() ? row_mask.data<uint8_t>() : nullptr,
                         .dy = dy,
                         .stats = stats.data<double>(),
                         .gain = values(w.gain),
                         .training = training,
                         .dx = dx.data,
                         .dgain = dgain.data,
                         .dbias = dbias.data,
                         .add_x = dx.add,
                         .add_gain = dgain.add,
                         .add_bias = dbias.add});
  });
  return y;
}

Tensor shift_op(Context& context, const Tensor& x, const Tensor& b) {
  Tensor y = Tensor::empty(x.shape());
  shift_forward(x.numel(), x.f32(), b.f32(), y.f32());
  if (!context.records(x) && !context.records(b)) return y;
  y.set_requires_grad();
  context.tape->record([x = x.without_data(), b, result = y.gradient()] {
    const float* dy = arrived(result);
    if (!dy) return;
    add_gradient(gradient_target(x), x.numel(), dy);
    if (const GradientTarget db = gradient_target(b); db.data) shift_backward(x.numel(), dy, db.data, db.add);
  });
  return y;
}

Tensor scaled(Context& context, const Tensor& x, double s) {
  if (s == 1) return x;
  Tensor y = Tensor::empty(x.shape());
  linear_combination(x.numel(), static_cast<float>(s), x.f32(), 0, nullptr, y.f32());
  if (!context.records(x)) return y;
  y.set_requires_grad();
  context.tape->record([x, s, result = y.gradient()] {
    if (const float* dy = arrived(result))
      add_gradient(gradient_target(x), x.numel(), dy, static_cast<float>(s));
  });
  return y;
}

}  // namespace

Tensor norm(Context& context, const Tensor& x, const NormWeights& w, double s, const Tensor& row_mask) {
  if (is_row_norm(w.kind)) return row_norm_op(context, x, w, s);
  if (w.kind == NormKind::dyt) return scaled(context, dyt_op(context, x, w), s);
  if (w.kind == NormKind::shift) return scaled(context, shift_op(context, x, w.bias), s);
  if (w.kind == NormKind::batch_norm) return scaled(context, batch_norm_op(context, x, w, row_mask), s);
  return scaled(context, x, s);
}

Tensor residual(Context& context, const Addition& a) {
  PLUMB_CHECK(a.x.shape() == a.branch.shape(), "{} + {}", a.x.shape().str(), a.branch.shape().str());
  Tensor sum = Tensor::empty(a.x.shape());
  residual_forward({.rows = a.x.rows(),
                    .width = a.x.width(),
                    .x = a.x.f32(),
                    .branch = a.branch.f32(),
                    .alpha = static_cast<float>(a.alpha),
                    .gate = kernel_gate(a),
                    .y = sum.f32()});
  if (!recorded(context, a)) return sum;
  sum.set_requires_grad();
  context.tape->record([a = for_backward(a), result = sum.gradient()] { residual_backward_of(a, result); });
  return sum;
}

std::pair<Tensor, Tensor> residual_norm(Context& context, const Addition& a, const NormWeights& w, double s,
                                        const Tensor& row_mask) {
  if (context.plain || !is_row_norm(w.kind)) {
    const Tensor sum = residual(context, a);
    return {sum, norm(context, sum, w, s, row_mask)};
  }
  PLUMB_CHECK(a.x.shape() == a.branch.shape(), "{} + {}", a.x.shape().str(), a.branch.shape().str());
  Tensor sum = Tensor::empty(a.x.shape()), y = Tensor::empty(a.x.shape());
  const bool record = recorded(context, a) || recorded(context, a.x, w);
  const RowNormRun run{w, s, sum.without_grad(),
                       record ? Tensor::empty({a.x.rows(), 2}, DType::f64) : Tensor()};
  NormForward f = forward_of(run);
  f.x = a.x.f32();
  f.branch = a.branch.f32();
  f.alpha = static_cast<float>(a.alpha);
  f.gate = kernel_gate(a);
  f.sum = sum.f32();
  f.y = y.f32();
  norm_forward(f);
  if (!record) return {sum, y};
  sum.set_requires_grad();
  y.set_requires_grad();
  context.tape->record([a = for_backward(a), run, sum_slot = sum.gradient(), y_slot = y.gradient()] {
    if (!arrived(y_slot)) return residual_backward_of(a, sum_slot);
    const Tensor dy = *y_slot->value;
    const Tensor dsum = arrived(sum_slot) ? *sum_slot->value : Tensor();
    const AdditionTargets t = addition_targets(a, dsum.defined() ? sum_slot : y_slot);
    NormBackward b = backward_of(run, dy.f32());
    b.dsum = values(dsum);
    b.alpha = static_cast<float>(a.alpha);
    b.gate = kernel_gate(a);
    b.branch = a.branch.f32();
    b.d_stream = t.stream.data;
    b.d_branch = t.branch.data;
    b.dgate = t.gate.data;
    b.add_stream = t.stream.add;
    b.add_branch = t.branch.add;
    b.add_gate = t.gate.add;
    norm_backward(b);
  });
  return {sum, y};
}

Tensor dropout(Context& context, const Tensor& x, double p, uint64_t site) {
  if (!context.training || p == 0) return x;
  const RandomKey key = context.dropout_key(site);
  Tensor y = Tensor::empty(x.shape());
  ::plumb::dropout({.n = x.numel(), .p = static_cast<float>(p), .key = key, .x = x.f32(), .y = y.f32()});
  if (!context.records(x)) return y;
  y.set_requires_grad();
  context.tape->record([x, p, key, result = y.gradient()] {
    const float* dy = arrived(result);
    if (!dy) return;
    const GradientTarget dx = gradient_target(x);
    ::plumb::dropout(
        {.n = x.numel(), .p = static_cast<float>(p), .key = key, .x = dy, .y = dx.data, .add = dx.add});
  });
  return y;
}

}  // namespace plumb::ops
