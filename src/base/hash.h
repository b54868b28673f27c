// A fast 64-bit hash for cache keys and tables: stable across machines and runs, not against an adversary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plumb {

// Bytes in any pieces: the value depends on their concatenation only.
class Hash {
 public:
  explicit Hash(uint64_t seed = 0) : state_(seed ^ 0x9e3779b97f4a7c15ull) {}
  void add(std::string_view bytes);
  void add(uint64_t number);
  uint64_t value() const;

 private:
  void mix(uint64_t word);
  uint64_t state_, length_ = 0, pending_ = 0;
};

uint64_t hash_bytes(std::string_view bytes, uint64_t seed = 0);
std::string hash_hex(uint64_t hash);  // 16 digits

}  // namespace plumb
