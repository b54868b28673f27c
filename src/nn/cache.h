// What decoding keeps: each layer's keys and values, which slots hold real tokens, and how many of those each
// sequence has. Slots are filled left to right by all sequences together; padding is a masked slot.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace plumb {

struct LayerCache {
  // (B, capacity, K * D); of latent attention the latents (B, capacity, kv_rank) and the keys that the heads
  // share (B, capacity, rope_dim).
  Tensor k, v;
  Tensor cross_k, cross_v;  // (B, S, K * D): made once from the encoder's output; undefined until then
};

struct Cache {
  int64_t batch = 0, capacity = 0;
  int64_t length = 0;  // slots filled
  Tensor mask;         // (B, capacity) u8
  Tensor positions;    // (B) i32: real tokens so far
  // Where keys depend on the length of the sequence (LongRoPE), what makes them again, and which they are.
  Tensor ids;  // (B, capacity) i32 or undefined
  int64_t rotary_regime = 0;
  Tensor memory;       // (B, S, C) the encoder's output, and
  Tensor memory_mask;  // (B, S) u8 or undefined
  std::vector<LayerCache> layers;

  Cache(int64_t batch_size, int64_t layer_count, int64_t slots);

  // Makes room for `slots` in all, keeping what is there.
  void reserve(int64_t slots);
  // Sequence b continues what sequence source[b] held (beam search).
  void reorder(const std::vector<int64_t>& source);
  // Forgets all but the first `slots`.
  void truncate(int64_t slots);
  size_t bytes() const;
};

}  // namespace plumb
