#include "tensor/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <utility>
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
  Blocks emptied;                   // of regions: their pages went back to the system
  std::map<char*, size_t> regions;  // where each begins, and the bytes cut from it
  char* region = nullptr;           // what is left of the last
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

  char* region_of(void* p) const { return std::prev(regions.upper_bound(static_cast<char*>(p)))->first; }

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
      regions[region] = 0;
    }
    void* p = region;
    regions[region_of(p)] += whole;
    region += whole;
    region_left -= whole;
    return p;
  }

  void* make(size_t size) { return in_region(size) ? cut(size) : from_system(size); }

  void* take(size_t size) {
    {
      std::lock_guard lock(mutex);
      live += size;
      peak = std::max(peak, live);
      if (void* p = take_from(idle, size)) {
        idle_bytes -= size;
        return p;
      }
      if (void* p = take_from(emptied, size)) return p;
      if (void* p = make(size)) return p;
    }
    release();
    std::lock_guard lock(mutex);
    if (void* p = take_from(emptied, size)) return p;
    if (void* p = make(size)) return p;
    live -= size;
    throw std::bad_alloc();
  }

  void give_back(void* p, size_t size) {
    std::lock_guard lock(mutex);
    live -= size;
    idle.emplace(size, p);
    idle_bytes += size;
  }

  // Regions of which nothing is in use go as a whole: where only some pages of a huge one went, the system
  // gives small ones later.
  void release() {
    std::lock_guard lock(mutex);
    std::vector<std::pair<void*, size_t>> full;  // blocks of regions, with their pages
    for (const auto& [size, p] : idle) {
      if (!in_region(size)) {
        std::free(p);
        continue;
      }
      full.emplace_back(p, up_to(kPage, size));
      emptied.emplace(size, p);
    }
    idle.clear();
    idle_bytes = 0;
    std::map<char*, size_t> unused;
    for (const auto& [size, p] : emptied) unused[region_of(p)] += up_to(kPage, size);
    std::erase_if(unused, [&](const auto& r) { return r.second < regions[r.first]; });
    for (const auto& [p, size] : full) {
      if (!unused.contains(region_of(p))) madvise(p, size, MADV_DONTNEED);
    }
    std::erase_if(emptied, [&](const auto& block) { return unused.contains(region_of(block.second)); });
    for (const auto& [begin, bytes] : unused) {
      if (begin + bytes == region) region_left = 0;
      regions.erase(begin);
      std::free(begin);
    }
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
