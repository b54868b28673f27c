// What the memory of this machine gives now, with all threads: the roof for kernels that do little
// arithmetic.
#pragma once

#include <cstdint>

namespace plumb {

// Bytes per second, best of a few passes. Bytes are those that the program names: one read and one write per
// element copied.
struct MemoryBandwidth {
  double read = 0;
  double copy = 0;   // a = b
  double triad = 0;  // a = b + s * c
};
// Over three arrays of so many floats, by default 352 MB each: beyond any cache, in about a second (more
// where the system has yet to find the memory).
MemoryBandwidth memory_bandwidth(int64_t floats = int64_t{88} << 20);

}  // namespace plumb
