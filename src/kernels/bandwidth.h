// What the memory of this machine gives now, with all threads: the roof for kernels that do little
// arithmetic.
#pragma once

namespace plumb {

// Bytes per second over arrays of 256 MB and more, best of a few passes, in about a second. Bytes are those
// that the program names: one read and one write per element copied.
struct MemoryBandwidth {
  double read = 0;
  double copy = 0;   // a = b
  double triad = 0;  // a = b + s * c
};
MemoryBandwidth memory_bandwidth();

}  // namespace plumb
