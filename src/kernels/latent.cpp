#include "kernels/latent.h"

#include <algorithm>

#include "kernels/row_blocks.h"

namespace plumb {
namespace {

void put(int64_t n, const float* x, float* y, bool add) {
  for (int64_t i = 0; i < n; ++i) y[i] = add ? y[i] + x[i] : x[i];
}

}  // namespace

void latent_heads_forward(const LatentHeads& a, const float* mapped, const float* shared, float* k,
                          float* v) {
  const int64_t block = rows_per_block(a.heads * (a.plain + a.rotated + a.value));
  for_blocks(a.rows, block, [&](int64_t, int64_t first, int64_t last) {
    for (int64_t i = first * a.heads; i < last * a.heads; ++i) {
      const float* from = mapped + i * (a.plain + a.value);
      float* key = k + i * (a.plain + a.rotated);
      std::copy_n(from, a.plain, key);
      std::copy_n(shared + i / a.heads * a.rotated, a.rotated, key + a.plain);
      std::copy_n(from + a.plain, a.value, v + i * a.value);
    }
  });
}

void latent_heads_backward(const LatentHeads& a, const LatentHeadsBackward& g) {
  const int64_t block = rows_per_block(a.heads * (a.plain + a.rotated + a.value));
  for_blocks(a.rows, block, [&](int64_t, int64_t first, int64_t last) {
    for (int64_t i = first * a.heads; i < last * a.heads; ++i) {
      const float* key = g.dk + i * (a.plain + a.rotated);
      if (g.dmapped) {
        float* to = g.dmapped + i * (a.plain + a.value);
        put(a.plain, key, to, g.add_mapped);
        put(a.value, g.dv + i * a.value, to + a.plain, g.add_mapped);
      }
      if (g.dshared) {
        put(a.rotated, key + a.plain, g.dshared + i / a.heads * a.rotated, g.add_shared || i % a.heads > 0);
      }
    }
  });
}

}  // namespace plumb
