#include "tensor/memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <vector>

namespace plumb {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// Sizes are rounded so that blocks of nearly equal size serve each other: to 1/8 of their power of two.
size_t round_size(size_t bytes) {
  if (bytes < 256) return 256;
  size_t step = 64;
  while (step * 16 <= bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

struct Pool {
  std::mutex mutex;
  std::multimap<size_t, void*> idle;
  size_t live = 0;
  size_t idle_bytes = 0;
  size_t peak = 0;

  void* take(size_t size) {
    {
      std::lock_guard lock(mutex);
      live += size;
      if (live > peak) peak = live;
      if (auto it = idle.find(size); it != idle.end()) {
        void* p = it->second;
        idle.erase(it);
        idle_bytes -= size;
        return p;
      }
    }
    const size_t alignment = size >= kHugePage ? kHugePage : kMemoryAlignment;
    void* p = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (!p) {
      release_cached_memory();
      p = std::aligned_alloc(kMemoryAlignment, size);
      if (!p) throw std::bad_alloc();
    }
    if (size >= kHugePage) madvise(p, size, MADV_HUGEPAGE);
    return p;
  }

  void give_back(void* p, size_t size) {
    std::lock_guard lock(mutex);
    live -= size;
    idle.emplace(size, p);
    idle_bytes += size;
  }
};

// Never destroyed: tensors in static storage may outlive any order of destruction.
Pool& pool() {
  static Pool& p = *new Pool;
  return p;
}

}  // namespace

std::shared_ptr<void> allocate_memory(size_t bytes) {
  const size_t size = round_size(bytes);
  void* p = pool().take(size);
  return std::shared_ptr<void>(p, [size](void* q) { pool().give_back(q, size); });
}

void release_cached_memory() {
  std::multimap<size_t, void*> idle;
  {
    std::lock_guard lock(pool().mutex);
    idle.swap(pool().idle);
    pool().idle_bytes = 0;
  }
  for (auto& [size, p] : idle) std::free(p);
}

size_t live_memory() {
  std::lock_guard lock(pool().mutex);
  return pool().live;
}

size_t held_memory() {
  std::lock_guard lock(pool().mutex);
  return pool().live + pool().idle_bytes;
}

size_t peak_memory() {
  std::lock_guard lock(pool().mutex);
  return pool().peak;
}

void reset_peak_memory() {
  std::lock_guard lock(pool().mutex);
  pool().peak = pool().live;
}

}  // namespace plumb
