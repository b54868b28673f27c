#include "base/hash.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace plumb {
namespace {

// Multiply to 128 bits and fold: every input bit reaches every output bit.
uint64_t fold(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t load(const char* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, 8);
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  return word;
}

}  // namespace

void Hash::mix(uint64_t word) {
  state_ = fold(state_ ^ word, 0xd6e8feb86659fd93ull) + 0xa0761d6478bd642full;
}

void Hash::add(std::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size()) {
    if (length_ % 8 == 0 && bytes.size() - i >= 8) {
      mix(load(bytes.data() + i));
      length_ += 8;
      i += 8;
      continue;
    }
    pending_ |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i++])) << 8 * (length_ % 8);
    if (++length_ % 8 == 0) {
      mix(pending_);
      pending_ = 0;
    }
  }
}

void Hash::add(uint64_t number) {
  char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(number >> 8 * i);
  add(std::string_view(bytes, 8));
}

uint64_t Hash::value() const {
  return fold(fold(state_ ^ pending_, 0xd6e8feb86659fd93ull) ^ length_, 0xe7037ed1a0b428dbull);
}

uint64_t hash_bytes(std::string_view bytes, uint64_t seed) {
  Hash hash(seed);
  hash.add(bytes);
  return hash.value();
}

std::string hash_hex(uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

}  // namespace plumb
