// Keys and values of latent attention from what a token keeps of itself (kernels/latent.h).
#pragma once

#include "kernels/latent.h"
#include "ops/context.h"

namespace plumb::ops {

struct LatentKeys {
  Tensor k, v;  // (B, S, H (P + R)), (B, S, H V)
};

// mapped (B, S, H (P + V)), shared (B, S, R). Of `shape` the heads, P and V; the rest follows from the
// tensors.
LatentKeys latent_heads(Context& context, const Tensor& mapped, const Tensor& shared, LatentHeads shape);

}  // namespace plumb::ops
