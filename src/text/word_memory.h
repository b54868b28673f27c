// The words that a thread met last, with their ids: most of a text are words that it met before.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace plumb {

// Who gave the ids. Every number is given once, so that a model never meets the words of another.
uint32_t new_word_owner();

// Two cache lines, of which short words need the first alone.
struct alignas(64) WordSlot {
  static constexpr size_t kNumbers = 30;
  static constexpr size_t kMostBytes = 48;  // of a word; longer ones are seldom met again

  bool holds(uint32_t who, std::string_view word) const;
  std::span<const int32_t> ids() const { return {numbers, count}; }
  // Left as it is where they do not fit.
  void fill(uint32_t who, std::string_view word, std::span<const int32_t> new_ids);

  uint32_t owner = 0;
  uint8_t bytes = 0, count = 0;
  int32_t numbers[kNumbers];  // the ids, and the word behind them
};
static_assert(sizeof(WordSlot) == 128);

// The thread's one place for a word of at most kMostBytes, where it replaces what was there.
WordSlot& word_slot(uint32_t owner, std::string_view word);

}  // namespace plumb
