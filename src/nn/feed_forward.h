// The feed-forward: down(act(up(x))), or gated: down(act(gate(x)) * up(x)); Shazeer 2020, 2002.05202.
#pragma once

#include <optional>

#include "nn/column_scale.h"
#include "nn/linear.h"
#include "nn/norm.h"

namespace plumb {

// GPT-OSS: gate at most `limit` (0: none), up within it and moved by `offset`. (..., F) each.
void bound(Context& context, double limit, double offset, Tensor& gate, Tensor& up);

class FeedForward {
 public:
  FeedForward(const Builder& b, const LayerConfig& c, const SublayerFormula& formula, int64_t hidden);

  Tensor forward(Context& context, const Tensor& x) const;  // (..., C) to the same

 private:
  // (..., F) each; gate alone where it holds both (ops::gated_linear).
  struct Hidden {
    Tensor gate, up;
  };
  Hidden project(Context& context, const Tensor& x) const;
  bool is_bounded() const { return limit_ != 0 || up_offset_ != 0; }

  std::string name_;
  Activation activation_;
  double limit_, up_offset_;
  bool fused_;  // up_ is gate's rows, then its own
  std::optional<Linear> gate_;
  Linear up_;
  std::optional<ColumnScale> up_scale_, gate_scale_;  // (F)
  std::optional<Norm> norm_inner_;
  Linear down_;
};

}  // namespace plumb
