#include "nn/feed_forward.h"

#include <utility>

#include "ops/bound.h"
#include "ops/embedding.h"

namespace plumb {
namespace {

std::vector<Linear::Part> parts_of(size_t count, int64_t hidden, double gain) {
  return std::vector<Linear::Part>(count, {hidden, gain});
}

}  // namespace

void bound(Context& context, double limit, double offset, Tensor& gate, Tensor& up) {
  Clamp of_up{.offset = static_cast<float>(offset)};
  if (limit != 0) {
    of_up.high = static_cast<float>(limit);
    of_up.low = -of_up.high;
    gate = ops::clamp(context, gate, {.high = of_up.high});
  }
  up = ops::clamp(context, up, of_up);
}

FeedForward::FeedForward(const Builder& b, const LayerConfig& c, const SublayerFormula& formula,
                         int64_t hidden)
    : name_(b.prefix),
      activation_(c.activation),
      limit_(c.ffn_limit),
      up_offset_(c.up_offset),
      fused_(c.gated && c.gate_up_fused),
      up_(b.child(fused_ ? "gate_up" : "up"), {b.config.width, parts_of(fused_ ? 2 : 1, hidden, formula.beta),
                                               c.ffn_bias, formula.reparam, from_stream(formula)}),
      down_(b.child("down"), {hidden,
                              {{b.config.width, formula.beta * formula.output_gain * output_scale(b.config)}},
                              c.ffn_bias,
                              formula.reparam,
                              to_stream(formula)}) {
  if (c.gated && !fused_) {
    gate_ =
        Linear(b.child("gate"),
               {b.config.width, {{hidden, formula.beta}}, c.ffn_bias, formula.reparam, from_stream(formula)});
  }
  if (formula.unit) up_scale_.emplace(b, "up_scale", hidden, 1);
  if (formula.unit && c.gated) gate_scale_.emplace(b, "gate_scale", hidden, 1);
  if (formula.norm_inner) norm_inner_.emplace(b.child("norm_inner"), c, hidden);
}

FeedForward::Hidden FeedForward::project(Context& context, const Tensor& x) const {
  if (!fused_) {
    Tensor up = up_.forward(context, x);
    return {gate_ ? gate_->forward(context, x) : Tensor(), up};
  }
  const Tensor both = up_.forward(context, x);
  if (!up_scale_ && !closely(context) && !is_bounded()) return {both, {}};
  const int64_t width = both.width() / 2;
  const auto parts = ops::split_columns(context, both, {width, width});
  return {parts[0], parts[1]};
}

Tensor FeedForward::forward(Context& context, const Tensor& x) const {
  const bool gated = gate_ || fused_;
  // Close observers are shown `up` with its bias, and the plain composition adds it at once.
  const bool adapted = up_.adapted() || down_.adapted();
  if (!gated && !norm_inner_ && !up_scale_ && !context.plain && !adapted && !closely(context)) {
    ops::LinearWeights up = up_.weights(context);
    const Tensor bias = std::exchange(up.bias, Tensor());
    return ops::activated_linear(context, ops::linear(context, x, up), bias, activation_,
                                 down_.weights(context));
  }
  auto [gate, up] = project(context, x);
  if (up_scale_) up = up_scale_->forward(context, up);
  if (gate_scale_) gate = gate_scale_->forward(context, gate);
  if (gated) observe_closely(context, name_, "gate", gate);
  observe_closely(context, name_, "up", up);
  if (is_bounded()) bound(context, limit_, up_offset_, gate, up);
  if (gated && !norm_inner_ && !down_.adapted())
    return ops::gated_linear(context, gate, up, activation_, down_.weights(context));
  const Tensor hidden =
      gated ? ops::gated(context, gate, up, activation_) : ops::activation(context, up, activation_);
  if (!norm_inner_) return down_.forward(context, hidden);
  observe_closely(context, name_, "hidden", hidden);
  const Tensor normed = norm_inner_->forward(context, hidden);
  observe_closely(context, name_, "inner", normed);
  return down_.forward(context, normed);
}

}  // namespace plumb
