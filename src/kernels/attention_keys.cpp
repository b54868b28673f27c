#include "kernels/attention_keys.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/convert.h"

namespace plumb {
namespace {

KeyList list_visible(const uint8_t* mask, int64_t keys) {
  KeyList list;
  for (int64_t s = 0; s < keys; ++s) {
    if (mask[s]) list.slots.push_back(static_cast<int32_t>(s));
  }
  list.count = static_cast<int64_t>(list.slots.size());
  if (list.count > 0 && list.contiguous(0, list.count)) {
    list.first = list.slots[0];
    list.slots.clear();
  }
  return list;
}

int64_t index_of(const KeyList& keys, int64_t slot) {  // of the first key at or after the slot
  if (keys.slots.empty()) return std::clamp<int64_t>(slot - keys.first, 0, keys.count);
  return std::lower_bound(keys.slots.begin(), keys.slots.end(), slot) - keys.slots.begin();
}

template <class T>
void gather(const T* base, int64_t ld, int64_t width, const KeyList& keys, int64_t i, int64_t n, float* out) {
  for (int64_t j = 0; j < n; ++j) {
    const T* row = base + keys.slot(i + j) * ld;
    for (int64_t d = 0; d < width; ++d) {
      if constexpr (std::is_same_v<T, float>) {
        out[j * width + d] = row[d];
      } else {
        out[j * width + d] = to_float(row[d]);
      }
    }
  }
}

// Rows of one sequence and head, by slot.
struct StoredRows {
  const char* base;
  DType dtype;
  int64_t ld, width;
  const void* at(int64_t slot) const { return base + slot * ld * static_cast<int64_t>(dtype_size(dtype)); }
};

StoredRows rows_of(const Attention& a, const void* data, int64_t ld, int64_t width, int64_t b, int64_t g) {
  const int64_t offset = b * a.kv_rows * ld + g * width;
  return {static_cast<const char*>(data) + offset * static_cast<int64_t>(dtype_size(a.kv_dtype)), a.kv_dtype,
          ld, width};
}

struct Rows {
  const float* data;
  int64_t ld;
};

Rows load_rows(const StoredRows& rows, const KeyList& keys, int64_t i, int64_t n, float* scratch) {
  const bool contiguous = keys.contiguous(i, n);
  if (contiguous && rows.dtype == DType::f32)
    return {static_cast<const float*>(rows.at(keys.slot(i))), rows.ld};
  if (contiguous) {
    widen({.src = rows.at(keys.slot(i)),
           .dtype = rows.dtype,
           .rows = n,
           .width = rows.width,
           .ld = rows.ld,
           .dst = scratch});
  } else if (rows.dtype == DType::f32) {
    gather(static_cast<const float*>(rows.at(0)), rows.ld, rows.width, keys, i, n, scratch);
  } else {
    gather(static_cast<const BFloat16*>(rows.at(0)), rows.ld, rows.width, keys, i, n, scratch);
  }
  return {scratch, rows.width};
}

}  // namespace

std::vector<KeyList> list_keys(const Attention& a) {
  std::vector<KeyList> lists(a.batch);
  for (int64_t b = 0; b < a.batch; ++b) {
    if (a.key_mask) {
      lists[b] = list_visible(a.key_mask + b * a.mask_row, a.keys);
    } else {
      lists[b].count = a.keys;
    }
  }
  return lists;
}

Interval visible_keys(const Attention& a, const KeyList& keys, int64_t t) {
  const int64_t i = a.first_query + t;
  int64_t begin = 0, end = a.keys;
  if (a.window > 0) {
    begin = std::max(begin, i - a.window + 1);
    end = std::min(end, i + a.window);
  }
  if (a.causal) end = std::min(end, i + 1);
  return {index_of(keys, begin), index_of(keys, end)};
}

StoredTile stored_tile(const Attention& a, const KeyList& keys, int64_t b, int64_t g, int64_t i) {
  return {rows_of(a, a.k, a.k_row, a.head_dim, b, g).at(keys.slot(i)),
          rows_of(a, a.v, a.v_row, a.value_dim, b, g).at(keys.slot(i))};
}

KeyValueTile load_tile(const Attention& a, const KeyList& keys, int64_t b, int64_t g, int64_t i, int64_t n,
                       KeyValueScratch scratch) {
  const Rows k = load_rows(rows_of(a, a.k, a.k_row, a.head_dim, b, g), keys, i, n, scratch.k);
  const Rows v = load_rows(rows_of(a, a.v, a.v_row, a.value_dim, b, g), keys, i, n, scratch.v);
  return {k.data, k.ld, v.data, v.ld};
}

}  // namespace plumb
