// What `plumb check` measures: one pass of a model over sample text, site by site, and the attention that
// follows from the streams of that pass.
#pragma once

#include <string>
#include <vector>

#include "model/transformer.h"

namespace plumb {

struct CheckSite {
  std::string module, quantity;  // as the observer is told: decoder.3.attention, branch
  double max = 0;                // of |x|
  double rms = 0, median = 0;    // median of |x|
  int64_t not_finite = 0;
};

// Self-attention of one layer, over all heads and queries from the second on.
struct CheckAttention {
  std::string module;
  double max_logit = 0;  // |q k| times the scale
  double entropy = 0;    // mean, as a share of the log of the keys a query sees
  // Mean of |i - j| weighted by attention, as a share of uniform attention's: as configured, and with the
  // other style of pairing dims in rotary positions. Without the first key, where models put what is left.
  double distance = 0, other_distance = 0;
  bool rotary = false;
};

struct CheckRouting {
  std::string module;
  std::vector<int64_t> tokens;  // that each expert receives
  int64_t sent = 0;             // their sum
};

struct CheckPass {
  std::vector<int32_t> ids;
  bool of_text = false;  // ids are a text's; else drawn, for want of a tokenizer
  std::vector<CheckSite> sites;
  std::vector<CheckAttention> attention;
  std::vector<CheckRouting> routing;
  double token_cosine = 0;  // mean between final states of different positions
  // Nats per token of a decoder with a head and rotary positions, likewise; 0 of others.
  double loss = 0, other_loss = 0;
  double loss_error = 0;  // standard error of the difference of the two, token by token

  bool made() const { return !ids.empty(); }
};

// ids (at least 2, all of them in the vocabulary, no longer than the model reads).
CheckPass check_pass(const Transformer& model, const std::vector<int32_t>& ids, bool of_text);

}  // namespace plumb
