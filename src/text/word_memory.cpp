#include "text/word_memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

namespace plumb {
namespace {

constexpr int kSlotBits = 14;

thread_local std::vector<WordSlot> slots(size_t{1} << kSlotBits);

}  // namespace

uint32_t new_word_owner() {
  static std::atomic<uint32_t> owners{0};
  return ++owners;
}

bool WordSlot::holds(uint32_t who, std::string_view word) const {
  return owner == who && bytes == word.size() && std::memcmp(numbers + count, word.data(), word.size()) == 0;
}

void WordSlot::fill(uint32_t who, std::string_view word, std::span<const int32_t> new_ids) {
  if (new_ids.size() * sizeof(int32_t) + word.size() > sizeof numbers) return;
  owner = who;
  bytes = static_cast<uint8_t>(word.size());
  count = static_cast<uint8_t>(new_ids.size());
  std::copy(new_ids.begin(), new_ids.end(), numbers);
  std::memcpy(numbers + count, word.data(), word.size());
}

WordSlot& word_slot(uint32_t owner, std::string_view word) {
  uint64_t hash = word.size() + owner;
  for (size_t i = 0; i < word.size(); i += 8) {
    uint64_t part = 0;
    std::memcpy(&part, word.data() + i, std::min<size_t>(8, word.size() - i));
    hash = (hash ^ part) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  }
  return slots[hash >> (64 - kSlotBits)];
}

}  // namespace plumb
