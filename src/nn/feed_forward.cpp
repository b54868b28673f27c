#include "nn/feed_forward.h"

namespace plumb {

FeedForward::FeedForward(const Builder& b, const LayerConfig& c, const SublayerFormula& formula,
                         int64_t hidden)
    : activation_(c.activation),
      up_(b.child("up"), b.config.width, {{hidden, formula.beta}}, c.ffn_bias),
      down_(b.child("down"), hidden, {{b.config.width, formula.beta * output_scale(b.config)}}, c.ffn_bias) {
  if (c.gated) {
    gate_.emplace(b.child("gate"), b.config.width, std::vector<Linear::Part>{{hidden, formula.beta}},
                  c.ffn_bias);
  }
  if (formula.norm_inner) norm_inner_.emplace(b.child("norm_inner"), c, hidden);
}

Tensor FeedForward::forward(Context& context, const Tensor& x) const {
  const Tensor up = up_.forward(context, x);
  if (!norm_inner_) {
    if (!gate_) return ops::activated_linear(context, up, activation_, down_.weights());
    return ops::gated_linear(context, gate_->forward(context, x), up, activation_, down_.weights());
  }
  const Tensor hidden = gate_ ? ops::gated(context, gate_->forward(context, x), up, activation_)
                              : ops::activation(context, up, activation_);
  return down_.forward(context, norm_inner_->forward(context, hidden));
}

}  // namespace plumb
