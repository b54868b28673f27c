// Where an attention looks and how large its logits are, worked out again from queries and keys for a sample
// of the queries, since the engine never holds (T, S).
#pragma once

#include <cstdint>
#include <vector>

#include "ops/attention.h"

namespace plumb {

// Summed up over passes. z(t, s) = scale * <q_t, k_s> is a logit, without ALiBi's part, of a pair that sees
// each other; the weights are softmax(z + ALiBi) before dropout. Over at most 64 queries of a pass, of real
// tokens, each with all its keys, and all heads.
struct AttentionMeasures {
  double max_logit = 0;                 // max |z|; NaN where one is not finite
  std::vector<double> entropy;          // by head: sum of H(t) / ln n(t) over queries that see n > 1 keys
  double first_mass = 0;                // sum over those queries and heads: weight of the first real key
  double query_norm = 0, key_norm = 0;  // sums of |q| and |k| as they meet, over queries and keys, and heads
  int64_t queries = 0, spread = 0, keys = 0;  // sampled; of these, that see more than one key; keys sampled

  // queries of (B, T): 1 where there is a real token, or undefined.
  void add(const ops::AttentionInput& input, const Tensor& query_mask);

  double mean_entropy() const;
  double least_entropy() const;  // of the heads
};

}  // namespace plumb
