#include "train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/optimizer.h"
#include "kernels/reduce.h"
#include "train/muon.h"

namespace plumb {
namespace {

// Hidden layers alone: the maps into and out of the vocabulary are better under AdamW (Jordan et al. 2024).
bool is_hidden_matrix(const Parameter& p) {
  return p.role == Role::matrix && p.shape.rank() == 2 &&
         (p.name.starts_with("encoder.") || p.name.starts_with("decoder."));
}

Optimizer::Rule rule_of(const Parameter& p, OptimizerKind kind) {
  if (kind == OptimizerKind::sgd) return Optimizer::Rule::sgd;
  return kind == OptimizerKind::muon && is_hidden_matrix(p) ? Optimizer::Rule::muon : Optimizer::Rule::adamw;
}

double decay_of(const Parameter& p, const TrainOptions& o) {
  return p.decays() ? o.weight_decay * p.scales.weight_decay : 0;
}

// Of what is kept at length 1, whose update the rules leave where the gradient was, which nobody reads again.
float* update_of(const Parameter& p) {
  return p.unit == UnitLength::none ? nullptr : p.value.grad().f32();
}

}  // namespace

double gradient_norm(const ParameterTable& parameters) {
  double sum = 0;
  for (const auto& p : parameters.all()) {
    if (const Tensor g = p->value.grad(); g.defined()) sum += sum_of_squares(g.numel(), g.f32());
  }
  return std::sqrt(sum);
}

double clip_factor(double norm, double most) {
  return most > 0 ? std::min(1.0, most / (norm + 1e-6)) : 1;
}

Optimizer::Optimizer(const ParameterTable& parameters, const TrainOptions& options) : options_(options) {
  for (const auto& p : parameters.all()) {
    if (!p->trainable) continue;
    Slot slot{.parameter = p.get(), .rule = rule_of(*p, options.optimizer)};
    const auto state = [&](const char* name) {
      state_.push_back({std::string(name) + ":" + p->name, Tensor::zeros(p->shape)});
      return state_.back().value;
    };
    if (slot.rule == Rule::adamw) {
      slot.first = state("m");
      slot.second = state("v");
    } else if (options.momentum > 0 || slot.rule == Rule::muon) {
      slot.first = state("u");
    }
    slots_.push_back(std::move(slot));
  }
}

const std::vector<ParameterUpdate>& Optimizer::step(double factor, double gradient_scale) {
  ++steps_;
  updates_.clear();
  for (const Slot& slot : slots_) {
    const bool reached = slot.parameter->value.grad().defined();
    updates_.push_back({slot.parameter, reached ? update(slot, factor, gradient_scale) : 0});
    slot.parameter->value.clear_grad();
  }
  return updates_;
}

double Optimizer::update(const Slot& slot, double factor, double gradient_scale) const {
  const Parameter& p = *slot.parameter;
  double moved = rule_step(slot, factor, gradient_scale);
  if (p.unit != UnitLength::none) moved = p.make_unit(update_of(p));
  p.follow();
  return moved;
}

double Optimizer::rule_step(const Slot& slot, double factor, double gradient_scale) const {
  switch (slot.rule) {
    case Rule::adamw:
      return adamw(slot, factor, gradient_scale);
    case Rule::sgd:
      return sgd(slot, factor, gradient_scale);
    case Rule::muon:
      return muon(slot, factor, gradient_scale);
  }
  return 0;
}

double Optimizer::adamw(const Slot& s, double factor, double gradient_scale) const {
  const Tensor& p = s.parameter->value;
  const ParameterScales& scales = s.parameter->scales;
  return adamw_step({.n = p.numel(),
                     .p = p.f32(),
                     .g = p.grad().f32(),
                     .m = s.first.f32(),
                     .v = s.second.f32(),
                     .lr = factor * options_.lr * scales.lr,
                     .beta1 = options_.beta1,
                     .beta2 = options_.beta2,
                     .eps = options_.eps * scales.eps,
                     .weight_decay = decay_of(*s.parameter, options_),
                     .step = steps_,
                     .gradient_scale = gradient_scale,
                     .update = update_of(*s.parameter)});
}

double Optimizer::sgd(const Slot& s, double factor, double gradient_scale) const {
  const Tensor& p = s.parameter->value;
  return sgd_step({.n = p.numel(),
                   .p = p.f32(),
                   .g = p.grad().f32(),
                   .u = s.first.defined() ? s.first.f32() : nullptr,
                   .lr = factor * options_.lr,
                   .momentum = options_.momentum,
                   .weight_decay = decay_of(*s.parameter, options_),
                   .gradient_scale = gradient_scale,
                   .update = update_of(*s.parameter)});
}

double Optimizer::muon(const Slot& s, double factor, double gradient_scale) const {
  const Tensor& p = s.parameter->value;
  const Tensor direction = Tensor::empty(p.shape());
  muon_momentum({.n = p.numel(),
                 .g = p.grad().f32(),
                 .u = s.first.f32(),
                 .momentum = options_.momentum,
                 .gradient_scale = gradient_scale,
                 .out = direction.f32()});
  orthogonalize_parts(*s.parameter, direction);
  const double lr = factor * options_.muon_lr;
  return decayed_step({.n = p.numel(),
                       .p = p.f32(),
                       .direction = direction.f32(),
                       .decay = 1 - lr * decay_of(*s.parameter, options_),
                       .step = lr,
                       .update = update_of(*s.parameter)});
}

}  // namespace plumb
