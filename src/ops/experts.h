// Routing of tokens to experts, differentiable in the weights.
#pragma once

#include <vector>

#include "ops/context.h"
#include "plumb/config.h"

namespace plumb::ops {

struct RouteOptions {
  int64_t top_k = 2;
  Router score = Router::softmax;
  bool normalize = true;
  double balance = 0;  // weight of the load-balancing loss in this pass
};

struct Routing {
  Tensor weights;                // (N, k), differentiable
  Tensor token;                  // (N * k) i32: the token at each place, grouped by expert
  Tensor place;                  // (N * k) i32: the place of each assignment
  std::vector<int64_t> offsets;  // (E + 1): places of each expert
  double balance_loss = 0;       // E * sum of f_e p_e, unweighted
};

// logits (N, E)
Routing route(Context& context, const Tensor& logits, const RouteOptions& options);

// Rows of x (N, C) at each place (N * k, C).
Tensor dispatch(Context& context, const Tensor& x, const Routing& routing);
// Sum of each token's experts by weight, (N, C), from (N * k, C).
Tensor combine(Context& context, const Tensor& x, const Routing& routing);

}  // namespace plumb::ops
