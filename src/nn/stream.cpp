#include "nn/stream.h"

namespace plumb {

Tensor Stream::value(Context& context) {
  if (pending_) {
    value_ = ops::residual(context, *pending_);
    pending_.reset();
  }
  return value_;
}

Tensor Stream::normed(Context& context, const Norm& norm, double s, const Tensor& row_mask) {
  if (!pending_) return norm.forward(context, value_, s, row_mask);
  const auto [sum, normed] = ops::residual_norm(context, *pending_, norm.weights(), s, row_mask);
  value_ = sum;
  pending_.reset();
  return normed;
}

void Stream::replace(Tensor x) {
  value_ = std::move(x);
  pending_.reset();
}

void Stream::add(Context& context, ops::Addition addition) {
  addition.x = value(context);
  pending_ = std::move(addition);
}

void Stream::start_sum(Context& context, double factor) {
  sum_ = ops::norm(context, value(context), {.kind = NormKind::none}, factor);
}

void Stream::add_to_sum(Context& context, const Tensor& branch, double factor) {
  sum_ = ops::residual(context,
                       {.x = sum_, .branch = branch, .gate_constant = factor, .branch_read_again = true});
}

}  // namespace plumb
