#include "tensor/memory.h"

#include <sys/mman.h>

#include <algorithm>
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

// Blocks of a middle size lie side by side in regions of huge pages. On small pages a processor reads a
// matrix of 1 MB at less than half of the memory's speed, since it looks up every 4 KB of it. Small blocks
// (and all, for the address sanitizer, which then sees their ends) and large ones come from the system one by
// one.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kRegions = false;
#elif defined(__has_feature)
constexpr bool kRegions = !__has_feature(address_sanitizer);
#else
constexpr bool kRegions = true;
#endif
constexpr size_t kSmallestInRegion = size_t{128} << 10, kLargestInRegion = size_t{32} << 20;
constexpr size_t kRegion = size_t{64} << 20;
constexpr size_t kPage = 4096;

bool in_region(size_t size) {
  return kRegions && size >= kSmallestInRegion && size <= kLargestInRegion;
}

size_t up_to(size_t multiple, size_t size) {
  return (size + multiple - 1) / multiple * multiple;
}

void* from_system(size_t size) {
  const size_t alignment = size >= kHugePage ? kHugePage : kMemoryAlignment;
  const size_t whole = up_to(alignment, size);
  void* p = std::aligned_alloc(alignment, whole);
  if (p && size >= kHugePage) madvise(p, whole, MADV_HUGEPAGE);
  return p;
}

struct Pool {
  using Blocks = std::multimap<size_t, void*>;  // by size

  std::mutex mutex;
  Blocks idle;
  Blocks emptied;  // of regions: their pages went back to the system
  char* region = nullptr;
  size_t region_left = 0;
  size_t live = 0;
  size_t idle_bytes = 0;
  size_t peak = 0;

  static void* take_from(Blocks& blocks, size_t size) {
    const auto it = blocks.find(size);
    if (it == blocks.end()) return nullptr;
    void* p = it->second;
    blocks.erase(it);
    return p;
  }

  // The next block of the region, or of a new one; null if the system has no more. The rest of the old one
  // was never touched and costs nothing.
  void* cut(size_t size) {
    const size_t whole = up_to(kPage, size);
    if (region_left < whole) {
      void* p = std::aligned_alloc(kHugePage, kRegion);
      if (!p) return nullptr;
      madvise(p, kRegion, MADV_HUGEPAGE);
      region = static_cast<char*>(p);
      region_left = kRegion;
    }
    void* p = region;
    region += whole;
    region_left -= whole;
    return p;
  }

  void* take(size_t size) {
    {
      std::lock_guard lock(mutex);
      live += size;
      peak = std::max(peak, live);
      if (void* p = take_from(idle, size)) {
        idle_bytes -= size;
        return p;
      }
      if (in_region(size)) {
        if (void* p = take_from(emptied, size)) return p;
        if (void* p = cut(size)) return p;
      }
    }
    void* p = from_system(size);
    if (p) return p;
    release_cached_memory();
    p = from_system(size);
    if (!p) throw std::bad_alloc();
    return p;
  }

  void give_back(void* p, size_t size) {
    std::lock_guard lock(mutex);
    live -= size;
    idle.emplace(size, p);
    idle_bytes += size;
  }

  void release() {
    std::lock_guard lock(mutex);
    for (const auto& [size, p] : idle) {
      if (in_region(size)) {
        madvise(p, up_to(kPage, size), MADV_DONTNEED);
        emptied.emplace(size, p);
      } else {
        std::free(p);
      }
    }
    idle.clear();
    idle_bytes = 0;
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
  pool().release();
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
