#include "nn/sublayer.h"

namespace plumb {

Sublayer::Sublayer(const Builder& b, const LayerConfig& c, const SublayerFormula& formula)
    : name_(b.prefix), formula_(formula), dropout_(b.config.dropout), dropout_site_(b.site()) {
  const int64_t width = b.config.width;
  if (formula.norm_in) norm_in_.emplace(b.child("norm_in"), c, width);
  if (formula.norm_branch) norm_branch_.emplace(b.child("norm_branch"), c, width);
  if (formula.norm_out) norm_out_.emplace(b.child("norm_out"), c, width);
  if (formula.gate != GateKind::constant) {
    gate_ = b.table.add({.name = b.name("gate"),
                         .shape = {formula.gate == GateKind::scalar ? 1 : width},
                         .role = Role::gate,
                         .constant = formula.gate_value});
  }
}

Tensor Sublayer::input(Context& context, Stream& stream, const Tensor& row_mask) const {
  Tensor x = norm_in_ ? stream.normed(context, *norm_in_, formula_.s, row_mask) : stream.value(context);
  if (!norm_in_ && formula_.s != 1) x = ops::norm(context, x, {.kind = NormKind::none}, formula_.s);
  observe_closely(context, name_, "input", x);
  return x;
}

void Sublayer::forward(Context& context, Stream& stream, const Branch& f, const Tensor& row_mask) const {
  if (context.observer) observe(context, name_, "stream", stream.value(context));
  Tensor branch = f(input(context, stream, row_mask));
  observe_closely(context, name_, "raw", branch);
  if (norm_branch_) branch = norm_branch_->forward(context, branch, 1, row_mask);
  branch = ops::dropout(context, branch, dropout_, dropout_site_);
  observe(context, name_, "branch", branch);

  const bool constant = formula_.gate == GateKind::constant;
  if (formula_.alpha == 0 && constant && formula_.gate_value == 1) {
    stream.replace(branch);  // no shortcut: the stream before is not even read
  } else {
    stream.add(context, {.branch = branch,
                         .alpha = formula_.alpha,
                         .gate_constant = constant ? formula_.gate_value : 1,
                         .gate = gate_ ? gate_->value : Tensor()});
  }
  if (norm_out_) {
    if (closely(context)) observe(context, name_, "sum", stream.value(context));
    stream.replace(stream.normed(context, *norm_out_, 1, row_mask));
  }
  if (closely(context)) observe(context, name_, "output", stream.value(context));
}

}  // namespace plumb
