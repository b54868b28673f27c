// One sub-layer: y = N_out(alpha * x + g * N_branch(F(s * N_in(x)))). The only place that adds a residual.
#pragma once

#include <functional>
#include <optional>

#include "nn/stream.h"

namespace plumb {

class Sublayer {
 public:
  Sublayer(const Builder& b, const LayerConfig& c, const SublayerFormula& formula);

  // F: the branch, from its input (B, T, C) to its output (B, T, C).
  using Branch = std::function<Tensor(const Tensor& input)>;
  void forward(Context& context, Stream& stream, const Branch& f, const Tensor& row_mask) const;

  // s * N_in(x)
  Tensor input(Context& context, Stream& stream, const Tensor& row_mask) const;

 private:
  std::string name_;
  SublayerFormula formula_;
  std::optional<Norm> norm_in_, norm_branch_, norm_out_;
  void step_towards(Context& context, Stream& stream, const Tensor& branch) const;
  void join(Context& context, Stream& stream, const Tensor& branch) const;

  Parameter *gate_ = nullptr, *shortcut_ = nullptr;
  double dropout_;
  uint64_t dropout_site_;
};

}  // namespace plumb
