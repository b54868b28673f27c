// Mixture of experts: each real token goes to its top-k feed-forwards, and to the shared ones.
//   Shazeer 2017, 1701.06538; Switch, 2101.03961; shared experts: DeepSeekMoE, 2401.06066.
#pragma once

#include <vector>

#include "nn/feed_forward.h"
#include "nn/sequence.h"
#include "ops/experts.h"

namespace plumb {

class Experts {
 public:
  Experts(const Builder& b, const LayerConfig& c, const SublayerFormula& formula);

  Tensor forward(Context& context, const Tensor& x, const Sequence& tokens) const;  // (B, T, C) to the same

 private:
  Tensor routed(Context& context, const Tensor& rows) const;     // (N, C)
  Tensor of_shared(Context& context, const Tensor& rows) const;  // (N, C)

  std::string name_;
  ops::RouteOptions options_;
  Linear router_;
  Parameter* correction_ = nullptr;  // (E)
  std::vector<FeedForward> experts_, shared_;
  std::optional<Linear> shared_gate_;
};

}  // namespace plumb
