// Byte-pair encoding (Sennrich, Haddow, Birch 2016): a word's bytes are joined pair by pair, the earliest
// learned merge first, the leftmost of equals first.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace plumb {

struct BpeMerge {
  int32_t left, right, joined;
};

class Bpe {
 public:
  Bpe() = default;
  // byte_ids: the token of each single byte, -1 where there is none. Merges in order of rank; of a pair given
  // twice the last counts.
  Bpe(const std::array<int32_t, 256>& byte_ids, std::vector<BpeMerge> merges);

  // Appends the ids of a word. A byte without a token stops it: returns the byte's offset, or the word's
  // length when all went well.
  size_t encode_word(std::string_view word, std::vector<int32_t>& ids) const;

  // Merges the ids from `first` on. lengths: of what each of them stands for, from 0 on; added up with them.
  void merge(std::vector<int32_t>& ids, size_t first, std::vector<uint32_t>* lengths) const;
  // Each time a merge is due it is passed over with this probability (Provilkov, Emelianenko, Voita 2020).
  void merge_with_dropout(std::vector<int32_t>& ids, std::vector<uint32_t>& lengths, double dropout) const;

  const std::vector<BpeMerge>& merges() const { return merges_; }
  const std::array<int32_t, 256>& byte_ids() const { return byte_ids_; }

 private:
  struct Entry {
    uint64_t pair;
    int32_t rank, joined;
  };
  const Entry* find(int32_t left, int32_t right) const;
  void insert(int32_t rank);
  size_t merge_short(int32_t* ids, size_t count, uint32_t* lengths) const;
  void merge_long(std::vector<int32_t>& ids, size_t first, std::vector<uint32_t>* lengths,
                  double dropout) const;

  std::array<int32_t, 256> byte_ids_{};
  std::vector<BpeMerge> merges_;
  std::vector<Entry> table_;  // open addressing, a power of two
};

}  // namespace plumb
