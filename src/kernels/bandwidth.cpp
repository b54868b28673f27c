#include "kernels/bandwidth.h"

#include <sys/mman.h>

#include <chrono>
#include <cstdint>
#include <new>

#include "kernels/elementwise.h"
#include "kernels/reduce.h"

namespace plumb {
namespace {

constexpr int kPasses = 3;

template <class Pass>
double best_rate(double bytes, const Pass& pass) {
  double best = 0;
  for (int i = 0; i < kPasses; ++i) {
    const auto start = std::chrono::steady_clock::now();
    pass();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, bytes / seconds.count());
  }
  return best;
}

}  // namespace

MemoryBandwidth memory_bandwidth(int64_t floats) {
  const double bytes = static_cast<double>(floats) * sizeof(float);
  // Straight from the system and back to it: the pool of tensors would keep and count it.
  const size_t size = 3 * floats * sizeof(float);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, size, MADV_HUGEPAGE);
  float* a = static_cast<float*>(memory);
  float* b = a + floats;
  float* c = b + floats;
  for (float* x : {a, b, c}) linear_combination(floats, 0, a, 0, nullptr, x);
  volatile double keep = 0;
  MemoryBandwidth rate;
  rate.read = best_rate(bytes, [&] { keep = dot(floats / 2, b, b + floats / 2); });
  rate.copy = best_rate(2 * bytes, [&] { linear_combination(floats, 1, b, 0, nullptr, a); });
  rate.triad = best_rate(3 * bytes, [&] { linear_combination(floats, 1, b, 0.5f, c, a); });
  munmap(memory, size);
  return rate;
}

}  // namespace plumb
