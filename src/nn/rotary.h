// What rotary positions turn by: one table for the layers that agree on it, which grows with the positions in
// use. Su 2021, 2104.09864; the changes for longer texts: RopeScaling in plumb/config.h.
#pragma once

#include <mutex>
#include <vector>

#include "plumb/config.h"
#include "tensor/tensor.h"

namespace plumb {

// Dims of a head that are turned: even, rounded up. `c` is resolved, here and below.
int64_t rotary_dim(const LayerConfig& c);

// Radians that each pair turns by from one position to the next, in a sequence of `length` tokens (which
// matters to dynamic and longrope only); rotary_dim / 2 of them.
std::vector<double> rotary_frequencies(const LayerConfig& c, int64_t length);

// Factor on cos and sin: of queries and of keys alike (YaRN, LongRoPE), 1 elsewhere.
double rotary_factor(const LayerConfig& c);

// YaRN's 0.1 m ln(factor) + 1, 1 where the factor is at most 1.
double yarn_mscale(double factor, double m);

// Factor on attention logits: set, or 1/sqrt(head_dim); with DeepSeek's where the layer is rotary.
double attention_scale(const LayerConfig& c, bool rotary);

struct RotaryTable {
  Tensor cos, sin;              // (positions, rotary_dim / 2); undefined: no rotary positions
  Tensor query_cos, query_sin;  // the same, but where queries grow with the position
  int64_t rotary_dim = 0;
};

class Rotary {
 public:
  explicit Rotary(const LayerConfig& c) : config_(c) {}

  bool fits(const LayerConfig& c) const {
    return rotary_dim(c) == rotary_dim(config_) && c.rope == config_.rope;
  }
  // For a sequence of `length` tokens: a row for each position, or more. Threads: any.
  RotaryTable table(int64_t length) const;

 private:
  LayerConfig config_;
  mutable std::mutex mutex_;
  mutable RotaryTable table_;        // the last one that was made, and
  mutable int64_t frequencies_ = 0;  // the length that its frequencies are of
};

}  // namespace plumb
