// Where attention goes, worked out again from observed queries and keys for one traced text: the engine
// itself never holds the weights as (T, S).
#pragma once

#include <string>
#include <vector>

#include "lab/trace_pass.h"

namespace plumb {

// Which keys a query sees, as kernels/attention.h defines it.
struct AttentionView {
  bool causal = false;
  int64_t window = 0;
  bool sees(int64_t t, int64_t s) const;
};
AttentionView view_of(const ModelConfig& config, const SublayerName& attention);

// softmax(scale q kᵀ + bias) of one attention, (H, T, S) f32; 0 where a query does not see a key, a row of
// zeros where it sees none. q (1, T, H D), k (1, S, K D) and sinks (H) as observed under "q", "k" and
// "sinks"; a sink's share is left out.
Tensor attention_weights(const ModelConfig& config, const SublayerName& attention, const AttentionView& view,
                         const Tensor& q, const Tensor& k, const Tensor& sinks);

struct HeadAttention {
  int64_t top = 0;       // the key that receives most, over all queries
  double top_share = 0;  // of all attention that the head gives
  double entropy =
      0;  // mean of H(t) / ln n(t) over queries that see n > 1 keys: 1 even, 0 one key; NaN: none
  double distance = 0;  // mean of |t - s| under the weights
};

struct AttentionNumbers {
  std::string module;
  std::vector<HeadAttention> heads;
  std::vector<double> received;  // (S): share of the layer's attention that each key receives; sums to 1
  double entropy = 0;            // mean over heads
};

// weights (H, T, S); `seen(t)`: how many keys query t sees.
AttentionNumbers attention_numbers(const std::string& module, const Tensor& weights,
                                   const std::vector<int64_t>& seen);

// Of every attention of the pass.
std::vector<AttentionNumbers> attention_numbers(const ModelConfig& config, const Observed& observed);

}  // namespace plumb
