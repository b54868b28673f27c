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
    : top_k_(c.experts_per_token),
      router_kind_(c.router),
      normalize_(c.router_normalize),
      router_(b.child("router"), {b.config.width, {{c.experts, 1}}}) {
  for (int64_t e = 0; e < c.experts; ++e) {
    experts_.emplace_back(b.child("experts." + std::to_string(e)), c, formula, c.ffn_width);
  }
  for (int64_t e = 0; e < c.shared_experts; ++e) {
    shared_.emplace_back(b.child("shared." + std::to_string(e)), c, formula, c.ffn_width);
  }
}

Tensor Experts::routed(Context& context, const Tensor& rows) const {
  const Tensor logits = router_.forward(context, rows);
  const ops::Routing routing = ops::route(
      context, logits,
      {.top_k = top_k_, .score = router_kind_, .normalize = normalize_, .balance = context.balance});
  if (context.balance_sum && !context.again) *context.balance_sum += routing.balance_loss;
  const std::vector<Tensor> inputs =
      ops::split_rows(context, ops::dispatch(context, rows, routing), routing.offsets);
  std::vector<Tensor> outputs;
  for (size_t e = 0; e < experts_.size(); ++e) outputs.push_back(experts_[e].forward(context, inputs[e]));
  return ops::combine(context, ops::join_rows(context, outputs), routing);
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
  for (const FeedForward& shared : shared_) y = ops::add(context, y, shared.forward(context, rows));
  return y.reshape(x.shape());
}

}  // namespace plumb
