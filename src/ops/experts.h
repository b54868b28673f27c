// Routing of tokens to experts, differentiable in the weights.
#pragma once

#include <vector>

#include "ops/context.h"
#include "plumb/config.h"

namespace plumb::ops {

// The load-balancing loss of a pass (Switch, 2101.03961): over each layer's tokens by itself, summed over
// layers, or over the tokens of all layers together. Unweighted. It outlives the pass's tape, whose gradients
// need the sums of all layers.
struct Balance {
  double weight = 0;  // in what the pass's gradient is of
  double apart = 0;   // of layers by themselves
  int64_t tokens = 0;
  std::vector<double> assigned, probability;  // (E): of layers together, summed over their tokens

  double value() const;
};

struct RouteOptions {
  int64_t top_k = 2;
  Router score = Router::softmax;
  bool normalize = true;
  double scale = 1;
  int64_t groups = 1, top_groups = 1;
  RouterGroup group_by = RouterGroup::best;
  bool balance_together = false;  // this layer's tokens with those of others
  Tensor correction;              // (E) on the scores, for the choice alone; or undefined
};

struct Routing {
  Tensor weights;                // (N, k), differentiable
  Tensor token;                  // (N * k) i32: the token at each place, grouped by expert
  Tensor place;                  // (N * k) i32: the place of each assignment
  std::vector<int64_t> offsets;  // (E + 1): places of each expert
};

// logits (N, E). Adds to context.balance, where there is one.
Routing route(Context& context, const Tensor& logits, const RouteOptions& options);

// sigmoid(logits) * x, (N, C) from logits (N, 1) and x (N, C).
Tensor sigmoid_gate(Context& context, const Tensor& logits, const Tensor& x);

// Rows of x (N, C) at each place (N * k, C).
Tensor dispatch(Context& context, const Tensor& x, const Routing& routing);
// Sum of each token's experts by weight, (N, C), from (N * k, C).
Tensor combine(Context& context, const Tensor& x, const Routing& routing);

}  // namespace plumb::ops
