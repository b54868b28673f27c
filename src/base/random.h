// Random numbers without state: each is a function of (seed, stream, index), so that a mask can be made again
// in the backward pass, a run can be resumed anywhere, and threads cannot change a result. Philox 4x32-10:
// Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#pragma once

#include <array>
#include <cstdint>

namespace plumb {

struct RandomKey {
  uint64_t seed = 0;
  uint64_t stream = 0;  // who asks: derive with random_stream()
};

// Four independent 32-bit words.
std::array<uint32_t, 4> random_block(RandomKey key, uint64_t index);

uint64_t random_u64(RandomKey key, uint64_t index);
double random_uniform(RandomKey key, uint64_t index);                  // [0, 1), 53 bits
double random_normal(RandomKey key, uint64_t index);                   // N(0, 1), Box-Muller
uint64_t random_below(RandomKey key, uint64_t index, uint64_t bound);  // [0, bound), unbiased to 2^-64

// Mixes any number of ids into a stream number (splitmix64), e.g. random_stream(step, layer, site).
uint64_t random_stream(uint64_t a, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0);

}  // namespace plumb
