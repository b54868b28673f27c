#include "nn/feed_forward.h"

#include <utility>

#include "ops/embedding.h"

namespace plumb {

FeedForward::FeedForward(const Builder& b, const LayerConfig& c, const SublayerFormula& formula,
                         int64_t hidden)
    : name_(b.prefix),
      activation_(c.activation),
      down_(b.child("down"), {hidden,
                              {{b.config.width, formula.beta * formula.output_gain * output_scale(b.config)}},
                              c.ffn_bias,
                              formula.reparam,
                              to_stream(formula)}) {
  const auto into = [&](const char* name, std::vector<Linear::Part> parts) {
    return Linear(b.child(name),
                  {b.config.width, std::move(parts), c.ffn_bias, formula.reparam, from_stream(formula)});
  };
  if (c.gated && c.gate_up_fused) {
    gate_up_ = into("gate_up", {{hidden, formula.beta}, {hidden, formula.beta}});
  } else {
    up_ = into("up", {{hidden, formula.beta}});
    if (c.gated) gate_ = into("gate", {{hidden, formula.beta}});
  }
  if (formula.unit) up_scale_.emplace(b, "up_scale", hidden, 1);
  if (formula.unit && c.gated) gate_scale_.emplace(b, "gate_scale", hidden, 1);
  if (formula.norm_inner) norm_inner_.emplace(b.child("norm_inner"), c, hidden);
}

FeedForward::Hidden FeedForward::project(Context& context, const Tensor& x) const {
  if (!gate_up_) return {gate_ ? gate_->forward(context, x) : Tensor(), up_->forward(context, x)};
  const Tensor both = gate_up_->forward(context, x);
  if (!up_scale_ && !closely(context)) return {both, {}};
  const int64_t width = both.width() / 2;
  const auto parts = ops::split_columns(context, both, {width, width});
  return {parts[0], parts[1]};
}

Tensor FeedForward::forward(Context& context, const Tensor& x) const {
  const bool gated = gate_ || gate_up_;
  // Close observers are shown `up` with its bias, and the plain composition adds it at once.
  if (!gated && !norm_inner_ && !up_scale_ && !context.plain && !closely(context)) {
    ops::LinearWeights up = up_->weights(context);
    const Tensor bias = std::exchange(up.bias, Tensor());
    return ops::activated_linear(context, ops::linear(context, x, up), bias, activation_,
                                 down_.weights(context));
  }
  auto [gate, up] = project(context, x);
  if (up_scale_) up = up_scale_->forward(context, up);
  if (gate_scale_) gate = gate_scale_->forward(context, gate);
  if (gated) observe_closely(context, name_, "gate", gate);
  observe_closely(context, name_, "up", up);
  if (gated && !norm_inner_) return ops::gated_linear(context, gate, up, activation_, down_.weights(context));
  const Tensor hidden =
      gated ? ops::gated(context, gate, up, activation_) : ops::activation(context, up, activation_);
  if (!norm_inner_) return down_.forward(context, hidden);
  observe_closely(context, name_, "hidden", hidden);
  const Tensor normed = norm_inner_->forward(context, hidden);
  observe_closely(context, name_, "inner", normed);
  return down_.forward(context, normed);
}

}  // namespace plumb
