// Work in fixed blocks, so that no result depends on how many threads took part: each block is one thread's,
// what blocks sum is kept apart and added in the blocks' order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "tensor/memory.h"

namespace plumb {

constexpr int64_t kBlockRows = 32;       // rows of a block in kernels that sum over rows
constexpr int64_t kBlockFloats = 16384;  // elements of a block in kernels over flat arrays

// Rows of a block where rows do not meet: enough for a thread to be worth waking.
inline int64_t rows_per_block(int64_t width) {
  return std::clamp<int64_t>(kBlockFloats / std::max<int64_t>(width, 1), 1, 256);
}
inline int64_t block_count(int64_t n, int64_t block) {
  return (n + block - 1) / block;
}

// body(index, first, last) for each block of [0, n).
template <class Body>
void for_blocks(int64_t n, int64_t block, const Body& body) {
  const int64_t blocks = block_count(n, block);
#pragma omp parallel for schedule(static) if (blocks > 1)
  for (int64_t b = 0; b < blocks; ++b) body(b, b * block, std::min(n, (b + 1) * block));
}

// What range(first, last) gives for each block of a flat array, in order.
template <class T, class Range>
std::vector<T> by_block(int64_t n, const Range& range) {
  std::vector<T> parts(block_count(n, kBlockFloats));
  for_blocks(n, kBlockFloats, [&](int64_t b, int64_t first, int64_t last) { parts[b] = range(first, last); });
  return parts;
}

// The f64 sum of the same.
template <class Range>
double sum_of_blocks(int64_t n, const Range& range) {
  double sum = 0;
  for (const double part : by_block<double>(n, range)) sum += part;
  return sum;
}

// Arrays of floats for the length of a call.
class Scratch {
 public:
  explicit Scratch(int64_t count) : memory_(allocate_memory(static_cast<size_t>(count) * sizeof(float))) {}
  float* data() const { return static_cast<float*>(memory_.get()); }

 private:
  std::shared_ptr<void> memory_;
};

// Sums over rows of (N, C), several at once: each block of rows fills its partial (C), finish adds them in
// f64.
class ColumnSums {
 public:
  ColumnSums(int64_t rows, int64_t width, int sums);
  float* partial(int64_t block, int sum) const { return partials_.data() + (sum * blocks_ + block) * width_; }
  float* cleared_partial(int64_t block, int sum) const;
  // out (C) = factor * sum, or += with add.
  void finish(int sum, float* out, bool add, double factor = 1) const;
  // out (1) = factor * sum over the columns too.
  void finish_scalar(int sum, float* out, bool add, double factor = 1) const;

 private:
  int64_t blocks_, width_;
  Scratch partials_;
};

}  // namespace plumb
