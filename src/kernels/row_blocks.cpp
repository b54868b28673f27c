#include "kernels/row_blocks.h"

#include <cstring>

namespace plumb {
namespace {

constexpr int64_t kColumns = 512;  // of a thread's turn: their sums stay in the first cache

}  // namespace

ColumnSums::ColumnSums(int64_t rows, int64_t width, int sums)
    : blocks_(block_count(rows, kBlockRows)), width_(width), partials_(blocks_ * width * sums) {}

float* ColumnSums::cleared_partial(int64_t block, int sum) const {
  float* p = partial(block, sum);
  std::memset(p, 0, static_cast<size_t>(width_) * sizeof(float));
  return p;
}

void ColumnSums::finish(int sum, float* out, bool add, double factor) const {
  for_blocks(width_, kColumns, [&](int64_t, int64_t first, int64_t last) {
    double total[kColumns] = {};
    for (int64_t b = 0; b < blocks_; ++b) {
      const float* p = partial(b, sum) + first;
      for (int64_t c = 0; c < last - first; ++c) total[c] += p[c];
    }
    for (int64_t c = first; c < last; ++c) {
      out[c] = static_cast<float>((add ? out[c] : 0.0) + factor * total[c - first]);
    }
  });
}

void ColumnSums::finish_scalar(int sum, float* out, bool add, double factor) const {
  double total = 0;
  for (int64_t i = 0; i < blocks_ * width_; ++i) total += partial(0, sum)[i];
  *out = static_cast<float>((add ? *out : 0.0) + factor * total);
}

}  // namespace plumb
