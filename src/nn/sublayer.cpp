#include "nn/sublayer.h"

#include <cmath>

#include "ops/scale.h"

namespace plumb {

Sublayer::Sublayer(const Builder& b, const LayerConfig& c, const SublayerFormula& formula, int64_t order)
    : name_(b.prefix), formula_(formula), dropout_(b.config.dropout), dropout_site_(b.site()) {
  const int64_t width = b.config.width;
  if (formula.norm_in) norm_in_.emplace(b.child("norm_in"), c, width);
  if (formula.norm_branch) norm_branch_.emplace(b.child("norm_branch"), c, width);
  if (formula.norm_out) norm_out_.emplace(b.child("norm_out"), c, width);
  const auto learned = [&](const char* name, GateKind kind, double start) -> Parameter* {
    if (kind == GateKind::constant) return nullptr;
    return b.table.add({.name = b.name(name),
                        .shape = {kind == GateKind::scalar ? 1 : width},
                        .role = Role::gate,
                        .constant = start});
  };
  if (formula.mixing != Mixing::none) mixer_.emplace(b.child("maps"), c, formula, order);
  const double start = formula.unit ? 1 / std::sqrt(static_cast<double>(width)) : formula.gate_value;
  gate_ = learned("gate", formula.gate, start);
  shortcut_ = learned("shortcut", formula.shortcut, formula.alpha);
}

Tensor Sublayer::input(Context& context, Stream& stream, const Tensor& row_mask) const {
  Tensor x = norm_in_ ? stream.normed(context, *norm_in_, formula_.s, row_mask) : stream.value(context);
  if (!norm_in_ && formula_.s != 1) x = ops::norm(context, x, {.kind = NormKind::none}, formula_.s);
  observe_closely(context, name_, "input", x);
  return x;
}

// x + g (branch - x) with g = |gate| * gate_value * sqrt(C), which is gate_value at the start.
void Sublayer::step_towards(Context& context, Stream& stream, const Tensor& branch) const {
  const double factor = formula_.gate_value * std::sqrt(static_cast<double>(branch.width()));
  const Tensor way = ops::residual(
      context,
      {.x = branch, .branch = stream.value(context), .gate_constant = -1, .branch_read_again = true});
  stream.add(context, {.branch = way, .gate = ops::magnitude(context, gate_->value, factor)});
}

// alpha * x + g * branch
void Sublayer::join(Context& context, Stream& stream, const Tensor& branch) const {
  if (formula_.unit) return step_towards(context, stream, branch);
  if (!gate_ && !shortcut_ && formula_.alpha == 0 && formula_.gate_value == 1) {
    return stream.replace(branch);  // no shortcut: the stream before is not even read
  }
  if (shortcut_) stream.replace(ops::scale_columns(context, stream.value(context), {.v = shortcut_->value}));
  stream.add(context, {.branch = branch,
                       .alpha = shortcut_ ? 1 : formula_.alpha,
                       .gate_constant = gate_ ? 1 : formula_.gate_value,
                       .gate = gate_ ? gate_->value : Tensor(),
                       .branch_read_again = formula_.dual != 0});
}

// N_branch(F(s * N_in(x)))
Tensor Sublayer::branch_of(Context& context, Stream& x, const Branch& f, const Tensor& row_mask) const {
  Tensor branch = f(input(context, x, row_mask));
  observe_closely(context, name_, "raw", branch);
  if (norm_branch_) branch = norm_branch_->forward(context, branch, 1, row_mask);
  branch = ops::dropout(context, branch, dropout_, dropout_site_);
  observe(context, name_, "branch", branch);
  return branch;
}

// H_res x + H_post g * branch(H_pre x)
void Sublayer::mix(Context& context, Stream& streams, const Branch& f, const Tensor& row_mask) const {
  const Tensor x = streams.value(context);
  const ops::StreamMaps maps = mixer_->maps(context, x);
  if (context.observer && !context.again) context.observer->streams(name_, x, maps.res);
  Stream read(ops::read_streams(context, x, maps));
  observe_closely(context, name_, "read", read.value(context));
  const Tensor branch = branch_of(context, read, f, row_mask);
  streams.replace(
      ops::write_streams(context, {.x = x, .branch = branch, .maps = maps, .gate = formula_.gate_value}));
}

void Sublayer::forward(Context& context, Stream& stream, const Branch& f, const Tensor& row_mask) const {
  if (context.observer) observe(context, name_, "stream", stream.value(context));
  if (mixer_) {
    mix(context, stream, f, row_mask);
    if (closely(context)) observe(context, name_, "output", stream.value(context));
    return;
  }
  const Tensor branch = branch_of(context, stream, f, row_mask);
  join(context, stream, branch);
  if (norm_out_) {
    if (closely(context)) observe(context, name_, "sum", stream.value(context));
    stream.replace(stream.normed(context, *norm_out_, 1, row_mask));
  }
  if (formula_.dual != 0) stream.add_to_sum(context, branch, formula_.dual * formula_.gate_value);
  if (closely(context)) observe(context, name_, "output", stream.value(context));
}

}  // namespace plumb
