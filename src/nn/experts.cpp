#include "nn/experts.h"

#include "ops/embedding.h"
#include "ops/experts.h"

namespace plumb {
namespace {

// Indices (R) i32 of the real rows.
Tensor real_rows(const Tensor& mask) {
  std::vector<int32_t> index;
  const uint8_t* m = mask.data<uint8_t>();
  for (int64_t i = 0; i < mask.numel(); ++i) {
    if (m[i]) index.push_back(static_cast<int32_t>(i));
  }
  return Tensor::of<int32_t>({static_cast<int64_t>(index.size())}, index);
}

}  // namespace

Experts::Experts(const Builder& b, const LayerConfig& c, const SublayerFormula& formula)
    : name_(b.prefix),
      options_{.top_k = c.experts_per_token,
               .score = c.router,
               .normalize = c.router_normalize,
               .scale = c.router_scale,
               .groups = c.router_groups,
               .top_groups = c.router_top_groups,
               .group_by = c.router_group_by,
               .balance_together = b.config.router_aux_joint},
      router_(b.child("router"), {b.config.width, {{c.experts, 1}}, c.router_bias}) {
  if (c.router_correction) {
    correction_ = b.table.add(
        {.name = b.child("router").name("correction"), .shape = {c.experts}, .role = Role::statistic});
  }
  experts_.reserve(c.experts);
  for (int64_t e = 0; e < c.experts; ++e) {
    experts_.emplace_back(b.child("experts." + std::to_string(e)), c, formula, c.ffn_width);
  }
  shared_.reserve(c.shared_experts);
  for (int64_t e = 0; e < c.shared_experts; ++e) {
    shared_.emplace_back(b.child("shared." + std::to_string(e)), c, formula, c.shared_width);
  }
  if (c.shared_gate) shared_gate_.emplace(b.child("shared_gate"), Linear::Spec{b.config.width, {{1, 1}}});
}

Tensor Experts::routed(Context& context, const Tensor& rows) const {
  const Tensor logits = router_.forward(context, rows);
  if (context.observer && !context.again) context.observer->router(name_, logits);
  ops::RouteOptions options = options_;
  if (correction_) options.correction = correction_->value;
  const ops::Routing routing = ops::route(context, logits, options);
  const std::vector<Tensor> inputs =
      ops::split_rows(context, ops::dispatch(context, rows, routing), routing.offsets);
  std::vector<Tensor> outputs;
  outputs.reserve(experts_.size());
  for (size_t e = 0; e < experts_.size(); ++e) outputs.push_back(experts_[e].forward(context, inputs[e]));
  return ops::combine(context, ops::join_rows(context, outputs), routing);
}

Tensor Experts::of_shared(Context& context, const Tensor& rows) const {
  Tensor y = shared_[0].forward(context, rows);
  for (size_t e = 1; e < shared_.size(); ++e) y = ops::add(context, y, shared_[e].forward(context, rows));
  return shared_gate_ ? ops::sigmoid_gate(context, shared_gate_->forward(context, rows), y) : y;
}

Tensor Experts::forward(Context& context, const Tensor& x, const Sequence& tokens) const {
  const Tensor rows = x.reshape({x.rows(), x.width()});
  Tensor y;
  if (tokens.all_real()) {
    y = routed(context, rows);
  } else {
    const Tensor index = real_rows(tokens.mask);
    y = ops::scatter_rows(context, routed(context, ops::gather_rows(context, rows, index)), index, x.rows());
  }
  if (!shared_.empty()) y = ops::add(context, y, of_shared(context, rows));
  return y.reshape(x.shape());
}

}  // namespace plumb
