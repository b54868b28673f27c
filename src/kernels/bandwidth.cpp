#include "kernels/bandwidth.h"

#include <sys/mman.h>

#include <chrono>
#include <cstdint>
#include <new>

#include "kernels/elementwise.h"
#include "kernels/reduce.h"

namespace plumb {
namespace {

constexpr int64_t kFloats = int64_t{88} << 20;  // 352 MB an array, three of them: beyond any cache
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

MemoryBandwidth memory_bandwidth() {
  const double bytes = static_cast<double>(kFloats) * sizeof(float);
  // Straight from the system and back to it: the pool of tensors would keep and count it.
  const size_t size = 3 * kFloats * sizeof(float);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, size, MADV_HUGEPAGE);
  float* a = static_cast<float*>(memory);
  float* b = a + kFloats;
  float* c = b + kFloats;
  for (float* x : {a, b, c}) linear_combination(kFloats, 0, a, 0, nullptr, x);
  volatile double keep = 0;
  MemoryBandwidth rate;
  rate.read = best_rate(bytes, [&] { keep = dot(kFloats / 2, b, b + kFloats / 2); });
  rate.copy = best_rate(2 * bytes, [&] { linear_combination(kFloats, 1, b, 0, nullptr, a); });
  rate.triad = best_rate(3 * bytes, [&] { linear_combination(kFloats, 1, b, 0.5f, c, a); });
  munmap(memory, size);
  return rate;
}

}  // namespace plumb
