// Attention, rotary positions and the experts' routing as differentiable ops.
#pragma once

#include "kernels/attention.h"
#include "ops/context.h"

namespace plumb::ops {

// Columns first .. of a tensor (B, T, ...): so that queries, keys and values may be parts of one fused
// product.
struct Columns {
  Tensor t;
  int64_t first = 0;
};

struct AttentionInput {
  Columns q, k, v;
  // Geometry, masks and scale; the pointers, row strides and lse are filled in from the tensors here.
  ::plumb::Attention shape;
  Tensor key_mask;      // (B, S) u8 or undefined
  Tensor first_keys;    // (B, T) i32 or undefined
  Tensor alibi_slopes;  // (H) or undefined
  Tensor sinks;         // (H) or undefined
};

// (B, T, H * value_dim). k and v may be a cache's tensors, (B, capacity, K * D): such take no gradient.
Tensor attention(Context& context, const AttentionInput& input);

struct RopeInput {
  Columns x;  // turned in place
  int64_t heads = 0, head_dim = 0, rotary_dim = 0;
  bool interleaved = false;
  Tensor cos, sin;   // (P, rotary_dim / 2)
  Tensor positions;  // (B, T) i32
};
void rope(Context& context, const RopeInput& input);

}  // namespace plumb::ops
