// Texts by their beginnings: which of them a text begins with.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace plumb {

class ByteTrie {
 public:
  static constexpr uint32_t kRoot = 0, kNone = ~0u;

  ByteTrie() : values_(1, -1) {}
  void add(std::string_view text, int32_t value);  // value >= 0; of equal texts the last counts

  uint32_t step(uint32_t node, unsigned char byte) const;       // kNone where no text goes on so
  int32_t value(uint32_t node) const { return values_[node]; }  // of the text that ends here, or -1
  uint32_t walk(uint32_t node, std::string_view text) const;    // all of it, or kNone

  struct Found {
    size_t length = 0;  // 0: none
    int32_t value = -1;
  };
  Found longest(std::string_view text, uint32_t from = kRoot) const;

 private:
  struct Edge {
    uint64_t key = kFree;  // parent * 256 + byte
    uint32_t child = 0;
  };
  static constexpr uint64_t kFree = ~0ull;
  size_t slot(uint64_t key) const;
  void grow();

  std::vector<Edge> edges_;  // open addressing, a power of two
  std::vector<int32_t> values_;
};

}  // namespace plumb
