// Keys and values of latent attention: DeepSeek-V2, arXiv 2405.04434. A latent is mapped to each head's part
// of a key and its value, (N, H (P + V)), head by head the P numbers of the key first; the R rotated numbers
// of a key, (N, R), are shared by the heads. N rows, H heads. Threads: OpenMP inside; no result depends on
// their number, bit for bit.
#pragma once

#include <cstdint>

namespace plumb {

struct LatentHeads {
  int64_t rows = 0, heads = 0;
  int64_t plain = 0, rotated = 0, value = 0;  // P, R, V
};

// k (N, H (P + R)), v (N, H V).
void latent_heads_forward(const LatentHeads& a, const float* mapped, const float* shared, float* k, float* v);

// The sum over heads for the shared part. Both outputs may be null.
struct LatentHeadsBackward {
  const float* dk = nullptr;
  const float* dv = nullptr;
  float* dmapped = nullptr;
  float* dshared = nullptr;
  bool add_mapped = false, add_shared = false;
};
void latent_heads_backward(const LatentHeads& a, const LatentHeadsBackward& g);

}  // namespace plumb
