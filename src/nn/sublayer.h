// One sub-layer: y = N_out(alpha * x + g * N_branch(F(s * N_in(x)))). The only place that adds a residual.
// With several streams, y = H_res x + H_post g N_branch(F(s * N_in(H_pre x))).
#pragma once

#include <functional>
#include <optional>

#include "nn/stream.h"
#include "nn/stream_mixer.h"

namespace plumb {

class Sublayer {
 public:
  // `order` of the sub-layer in its stack: which of several streams it begins with.
  Sublayer(const Builder& b, const LayerConfig& c, const SublayerFormula& formula, int64_t order = 0);

  // F: the branch, from its input (B, T, C) to its output (B, T, C).
  using Branch = std::function<Tensor(const Tensor& input)>;
  void forward(Context& context, Stream& stream, const Branch& f, const Tensor& row_mask) const;

  // s * N_in(x)
  Tensor input(Context& context, Stream& stream, const Tensor& row_mask) const;

 private:
  void step_towards(Context& context, Stream& stream, const Tensor& branch) const;
  Tensor branch_of(Context& context, Stream& x, const Branch& f, const Tensor& row_mask) const;
  void join(Context& context, Stream& stream, const Tensor& branch) const;
  void mix(Context& context, Stream& streams, const Branch& f, const Tensor& row_mask) const;

  std::string name_;
  SublayerFormula formula_;
  std::optional<Norm> norm_in_, norm_branch_, norm_out_;
  std::optional<StreamMixer> mixer_;
  Parameter *gate_ = nullptr, *shortcut_ = nullptr;
  double dropout_;
  uint64_t dropout_site_;
};

}  // namespace plumb
