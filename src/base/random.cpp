#include "base/random.h"

#include <cmath>
#include <numbers>

namespace plumb {
namespace {

uint64_t splitmix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

double unit(uint32_t high, uint32_t low) {
  return static_cast<double>(((static_cast<uint64_t>(high) << 32) | low) >> 11) * 0x1.0p-53;
}

}  // namespace

std::array<uint32_t, 4> random_block(RandomKey key, uint64_t index) {
  uint32_t c[4] = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                   static_cast<uint32_t>(key.stream), static_cast<uint32_t>(key.stream >> 32)};
  uint32_t k[2] = {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = 0xD2511F53ull * c[0];
    const uint64_t p1 = 0xCD9E8D57ull * c[2];
    const uint32_t next[4] = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
                              static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    for (int i = 0; i < 4; ++i) c[i] = next[i];
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return {c[0], c[1], c[2], c[3]};
}

uint64_t random_u64(RandomKey key, uint64_t index) {
  const auto block = random_block(key, index);
  return (static_cast<uint64_t>(block[0]) << 32) | block[1];
}

double random_uniform(RandomKey key, uint64_t index) {
  const auto block = random_block(key, index);
  return unit(block[0], block[1]);
}

double random_normal(RandomKey key, uint64_t index) {
  const auto block = random_block(key, index);
  const double radius = std::sqrt(-2.0 * std::log(1.0 - unit(block[0], block[1])));
  return radius * std::cos(2.0 * std::numbers::pi * unit(block[2], block[3]));
}

uint64_t random_below(RandomKey key, uint64_t index, uint64_t bound) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(random_u64(key, index)) * bound) >> 64);
}

uint64_t random_stream(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  return splitmix64(splitmix64(splitmix64(splitmix64(a) ^ b) ^ c) ^ d);
}

}  // namespace plumb
