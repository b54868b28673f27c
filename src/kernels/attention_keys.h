// The keys of attention: which of them a query sees, and where their rows are.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "kernels/interval.h"

namespace plumb {

// The slots of one sequence that its key mask leaves visible, in order; "key i" below is the i-th of them.
struct KeyList {
  int64_t count = 0;
  int64_t first = 0;                    // the slots are first, first + 1, ... if `slots` is empty
  std::vector<int32_t> slots;           // (count) otherwise
  const int32_t* first_keys = nullptr;  // (T) the sequence's part of Attention::first_keys
  int64_t slot(int64_t i) const { return slots.empty() ? first + i : slots[i]; }
  bool contiguous(int64_t i, int64_t n) const { return slot(i + n - 1) - slot(i) == n - 1; }
};

std::vector<KeyList> list_keys(const Attention& a);  // (B)

// Keys that query t sees: with the mask applied, one interval of the list.
Interval visible_keys(const Attention& a, const KeyList& keys, int64_t t);

// A kv head of one sequence.
struct KeyHead {
  int64_t b = 0, g = 0;
};

// Rows of K and V as f32, each `ld` apart.
struct KeyValueTile {
  float* k = nullptr;  // (n, D)
  int64_t k_ld = 0;
  float* v = nullptr;  // (n, value_dim)
  int64_t v_ld = 0;
};

// Copies the rows of the keys `part`.
void copy_k(const Attention& a, const KeyList& keys, KeyHead head, Interval part, const KeyValueTile& to);
void copy_v(const Attention& a, const KeyList& keys, KeyHead head, Interval part, const KeyValueTile& to);

// The rows of K as f32: where they lie, or copied into `scratch`.
struct F32Rows {
  const float* data = nullptr;
  int64_t ld = 0;
};
F32Rows f32_k(const Attention& a, const KeyList& keys, KeyHead head, Interval part,
              const KeyValueTile& scratch);

// The keys `part` as they are stored, or copied into `scratch` where their slots do not follow each other.
struct StoredTile {
  const void* k = nullptr;  // (n, D)
  int64_t k_ld = 0;
  const void* v = nullptr;  // (n, value_dim)
  int64_t v_ld = 0;
  DType dtype = DType::f32;
};
StoredTile stored_keys(const Attention& a, const KeyList& keys, KeyHead head, Interval part,
                       const KeyValueTile& scratch);

}  // namespace plumb
