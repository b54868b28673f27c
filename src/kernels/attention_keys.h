// The keys of attention: which of them a query sees, and where their rows are.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention.h"

namespace plumb {

// The slots of one sequence that its key mask leaves visible, in order; "key i" below is the i-th of them.
struct KeyList {
  int64_t count = 0;
  int64_t first = 0;           // the slots are first, first + 1, ... if `slots` is empty
  std::vector<int32_t> slots;  // (count) otherwise
  int64_t slot(int64_t i) const { return slots.empty() ? first + i : slots[i]; }
  bool contiguous(int64_t i, int64_t n) const { return slot(i + n - 1) - slot(i) == n - 1; }
};

std::vector<KeyList> list_keys(const Attention& a);  // (B)

struct Interval {
  int64_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
};

// Keys that query t sees: with the mask applied, one interval of the list.
Interval visible_keys(const Attention& a, const KeyList& keys, int64_t t);

// Where key i's rows of K and V of sequence b and kv head g are stored.
struct StoredTile {
  const void* k;
  const void* v;
};
StoredTile stored_tile(const Attention& a, const KeyList& keys, int64_t b, int64_t g, int64_t i);

// n rows of K and V of sequence b and kv head g from key i on, as f32: in place where they are, or copied.
struct KeyValueTile {
  const float* k = nullptr;  // (n, D)
  int64_t k_ld = 0;
  const float* v = nullptr;  // (n, value_dim)
  int64_t v_ld = 0;
};
struct KeyValueScratch {
  float* k = nullptr;  // (n, D)
  float* v = nullptr;  // (n, value_dim)
};
KeyValueTile load_tile(const Attention& a, const KeyList& keys, int64_t b, int64_t g, int64_t i, int64_t n,
                       KeyValueScratch scratch);

}  // namespace plumb
