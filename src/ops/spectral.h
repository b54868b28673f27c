// Sigma-reparametrisation: a matrix W stands for gamma / sigma(W) * W, where gamma is learned and sigma(W) =
// |W v| / |v| is its spectral norm, v following the first right singular vector by a power iteration after
// each update. Zhai et al. 2023, 2303.06296.
#pragma once

#include <vector>

#include "ops/linear.h"

namespace plumb::ops {

// Of the P maps that a matrix holds, one or Q, K and V.
struct SigmaReparam {
  Tensor gamma;                  // (P)
  Tensor vectors;                // (P, in): v, constants in a pass
  std::vector<int64_t> outputs;  // of each map
};

// The map that w stands for. A map of zeros stays one.
LinearWeights sigma_reparam(Context& context, const LinearWeights& w, const SigmaReparam& s);

// One power iteration for each map.
void follow(const LinearWeights& w, const SigmaReparam& s);

// Power iterations until they gain nothing, from the vectors given, and gamma = sigma(W): w stands for
// itself.
void start(const LinearWeights& w, const SigmaReparam& s);

}  // namespace plumb::ops
