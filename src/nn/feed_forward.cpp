#include "nn/feed_forward.h"

#include <utility>

namespace plumb {

FeedForward::FeedForward(const Builder& b, const LayerConfig& c, const SublayerFormula& formula,
                         int64_t hidden)
    : name_(b.prefix),
      activation_(c.activation),
      up_(b.child("up"),
          {b.config.width, {{hidden, formula.beta}}, c.ffn_bias, formula.reparam, from_stream(formula)}),
      down_(b.child("down"), {hidden,
                              {{b.config.width, formula.beta * formula.output_gain * output_scale(b.config)}},
                              c.ffn_bias,
                              formula.reparam,
                              to_stream(formula)}) {
  if (c.gated) {
    gate_ =
        Linear(b.child("gate"),
               {b.config.width, {{hidden, formula.beta}}, c.ffn_bias, formula.reparam, from_stream(formula)});
  }
  if (formula.unit) up_scale_.emplace(b, "up_scale", hidden, 1);
  if (formula.unit && c.gated) gate_scale_.emplace(b, "gate_scale", hidden, 1);
  if (formula.norm_inner) norm_inner_.emplace(b.child("norm_inner"), c, hidden);
}

Tensor FeedForward::forward(Context& context, const Tensor& x) const {
  // Close observers are shown `up` with its bias, and the plain composition adds it at once.
  if (!gate_ && !norm_inner_ && !up_scale_ && !context.plain && !closely(context)) {
    ops::LinearWeights up = up_.weights(context);
    const Tensor bias = std::exchange(up.bias, Tensor());
    return ops::activated_linear(context, ops::linear(context, x, up), bias, activation_,
                                 down_.weights(context));
  }
  Tensor up = up_.forward(context, x);
  Tensor gate = gate_ ? gate_->forward(context, x) : Tensor();
  if (up_scale_) up = up_scale_->forward(context, up);
  if (gate_scale_) gate = gate_scale_->forward(context, gate);
  if (gate_) observe_closely(context, name_, "gate", gate);
  observe_closely(context, name_, "up", up);
  if (gate_ && !norm_inner_) return ops::gated_linear(context, gate, up, activation_, down_.weights(context));
  const Tensor hidden =
      gate_ ? ops::gated(context, gate, up, activation_) : ops::activation(context, up, activation_);
  if (!norm_inner_) return down_.forward(context, hidden);
  observe_closely(context, name_, "hidden", hidden);
  const Tensor normed = norm_inner_->forward(context, hidden);
  observe_closely(context, name_, "inner", normed);
  return down_.forward(context, normed);
}

}  // namespace plumb
