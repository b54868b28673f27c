#include "ops/loss.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "ops/bound.h"

namespace plumb::ops {
namespace {

// Rows of logits held at once: enough for the product to run at its best, and equal shares of all rows,
// because a last chunk of a few would run far below it. Each chunk reads all weights and their gradient once
// more, which costs a bf16 product a larger share of its time: it gets four times as much memory.
int64_t chunk_rows(int64_t rows, int64_t vocabulary, DType compute) {
  const int64_t bytes = int64_t{compute == DType::bf16 ? 256 : 64} << 20;
  const int64_t most = std::max<int64_t>(64, bytes / (4 * std::max<int64_t>(1, vocabulary)));
  const int64_t chunks = std::max<int64_t>(1, (rows + most - 1) / most);
  return (rows + chunks - 1) / chunks;
}

Tensor scaled_logits(Context& context, const Tensor& h, const Head& head) {
  const Tensor y = linear(context, h, head.map);
  return head.scale.v.defined() ? scale_columns(context, y, head.scale) : y;
}

// Whether the logits' gradient is an operand of bf16 products and nothing else: then it is made as such.
bool products_alone(const Tensor& h, const Head& head, DType compute) {
  return compute == DType::bf16 && !head.scale.v.defined() && !head.map.bias.defined() &&
         (h.requires_grad() || head.map.weight.requires_grad());
}

// One chunk: logits from h, their loss and gradient, and that gradient into dh and the weights.
LossSums chunk_loss(Context& context, const Tensor& h, float* dh, bool add_dh, const Head& head,
                    const int32_t* targets, const LossOptions& o) {
  Tensor x = h;
  if (dh) {
    x.set_requires_grad();
    x.gradient()->value = std::make_unique<Tensor>(Tensor::view(h.shape(), DType::f32, dh, nullptr));
    x.gradient()->written = add_dh;
  }
  Tape tape;
  Context inner = context;
  const bool direct = context.tape && head.softcap == 0 && products_alone(x, head, context.compute);
  inner.tape = context.tape && !direct ? &tape : nullptr;
  Tensor logits = scaled_logits(inner, x, head);
  if (head.untrained_bias.defined()) {
    bias_forward(logits.rows(), logits.width(), logits.f32(), head.untrained_bias.f32(), logits.f32());
  }
  if (head.softcap > 0) logits = softcap(inner, logits, head.softcap);
  const Tensor rounded = direct ? Tensor::empty(logits.shape(), DType::bf16) : Tensor();
  const LossSums sums =
      ::plumb::cross_entropy({.rows = logits.rows(),
                              .vocabulary = logits.width(),
                              .logits = logits.f32(),
                              .targets = targets,
                              .label_smoothing = static_cast<float>(o.label_smoothing),
                              .z_loss = static_cast<float>(o.z_loss),
                              .scale = o.scale,
                              .gradient = direct || logits.requires_grad(),
                              .gradient_bf16 = direct ? rounded.data<BFloat16>() : nullptr});
  if (direct) {
    linear_backward(context.compute, rounded, x, head.map);
  } else if (logits.requires_grad()) {
    logits.gradient()->value = std::make_unique<Tensor>(logits.without_grad());
    logits.gradient()->written = true;
    tape.backward();
  }
  return sums;
}

LossSums number_loss(Context& context, const Tensor& scores, const Tensor& targets, double scale,
                     double (*kernel)(const NumberLoss&)) {
  const bool record = context.records(scores);
  const GradientTarget d = record ? gradient_target(scores) : GradientTarget{};
  PLUMB_CHECK(!d.add, "scores have one loss");
  if (record) std::copy_n(scores.f32(), scores.numel(), d.data);
  const double sum = kernel({.n = scores.numel(),
                             .x = record ? d.data : scores.f32(),
                             .targets = targets.f32(),
                             .scale = scale,
                             .gradient = record});
  return {.loss = sum, .count = scores.numel()};
}

}  // namespace

Tensor logits(Context& context, const Tensor& h, const Head& head) {
  Tensor y = scaled_logits(context, h, head);
  if (head.untrained_bias.defined()) y = add_untrained_bias(context, y, head.untrained_bias);
  return head.softcap > 0 ? softcap(context, y, head.softcap) : y;
}

LossSums linear_cross_entropy(Context& context, const Tensor& h, const Head& head, const Tensor& targets,
                              const LossOptions& options) {
  PLUMB_CHECK(targets.numel() == h.rows(), "{} targets for {}", targets.numel(), h.shape().str());
  if (context.plain) return cross_entropy(context, logits(context, h, head), targets, options);
  const Tensor rows = h.without_grad().reshape({h.rows(), h.width()});
  const GradientTarget dh = context.tape ? gradient_target(h) : GradientTarget{};
  const int64_t chunk = chunk_rows(h.rows(), head.map.outputs(), context.compute);
  LossSums sums;
  for (int64_t first = 0; first < h.rows(); first += chunk) {
    const int64_t count = std::min(chunk, h.rows() - first);
    sums += chunk_loss(context, rows.rows_view(first, count), dh.data ? dh.data + first * h.width() : nullptr,
                       dh.add, head, targets.data<int32_t>() + first, options);
  }
  return sums;
}

LossSums cross_entropy(Context& context, const Tensor& logits, const Tensor& targets, const LossOptions& o) {
  PLUMB_CHECK(targets.numel() == logits.rows(), "{} targets for {}", targets.numel(), logits.shape().str());
  const bool record = context.records(logits);
  const GradientTarget d = record ? gradient_target(logits) : GradientTarget{};
  PLUMB_CHECK(!d.add, "logits have one loss");
  if (record) std::copy_n(logits.f32(), logits.numel(), d.data);
  return ::plumb::cross_entropy({.rows = logits.rows(),
                                 .vocabulary = logits.width(),
                                 .logits = record ? d.data : logits.f32(),
                                 .targets = targets.data<int32_t>(),
                                 .label_smoothing = static_cast<float>(o.label_smoothing),
                                 .z_loss = static_cast<float>(o.z_loss),
                                 .scale = o.scale,
                                 .gradient = record});
}

LossSums squared_error(Context& context, const Tensor& scores, const Tensor& targets, double scale) {
  return number_loss(context, scores, targets, scale, ::plumb::squared_error);
}

LossSums sigmoid_cross_entropy(Context& context, const Tensor& scores, const Tensor& targets, double scale) {
  return number_loss(context, scores, targets, scale, ::plumb::sigmoid_cross_entropy);
}

Tensor add_untrained_bias(Context& context, const Tensor& x, const Tensor& bias) {
  Tensor y = Tensor::empty(x.shape());
  bias_forward(x.rows(), x.width(), x.f32(), bias.f32(), y.f32());
  if (!context.records(x)) return y;
  y.set_requires_grad();
  context.tape->record([x = x.without_data(), result = y.gradient()] {
    if (const float* dy = arrived(result)) add_gradient(gradient_target(x), x.numel(), dy);
  });
  return y;
}

}  // namespace plumb::ops
