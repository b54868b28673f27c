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

// Rows of one sequence and head, by slot.
struct StoredRows {
  const char* base;
  DType dtype;
  int64_t ld, width;
  const void* at(int64_t slot) const { return base + slot * ld * static_cast<int64_t>(dtype_size(dtype)); }
};

StoredRows rows_of(const Attention& a, const void* data, int64_t ld, int64_t width, KeyHead head) {
  const int64_t offset = head.b * a.kv_rows * ld + head.g * width;
  return {static_cast<const char*>(data) + offset * static_cast<int64_t>(dtype_size(a.kv_dtype)), a.kv_dtype,
          ld, width};
}

// Run by run of slots that follow each other.
void copy_rows(const StoredRows& rows, const KeyList& keys, Interval part, float* to, int64_t to_ld) {
  for (int64_t i = part.begin, end; i < part.end; i = end) {
    end = keys.contiguous(i, part.end - i) ? part.end : i + 1;
    while (end < part.end && keys.slot(end) == keys.slot(end - 1) + 1) ++end;
    widen({.src = rows.at(keys.slot(i)),
           .dtype = rows.dtype,
           .rows = end - i,
           .width = rows.width,
           .ld = rows.ld,
           .dst = to + (i - part.begin) * to_ld,
           .dst_ld = to_ld});
  }
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
    if (a.first_keys) lists[b].first_keys = a.first_keys + b * a.queries;
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
  if (keys.first_keys) begin = std::max<int64_t>(begin, keys.first_keys[t]);
  return {index_of(keys, begin), index_of(keys, end)};
}

void copy_k(const Attention& a, const KeyList& keys, KeyHead head, Interval part, const KeyValueTile& to) {
  copy_rows(rows_of(a, a.k, a.k_row, a.head_dim, head), keys, part, to.k, to.k_ld);
}

void copy_v(const Attention& a, const KeyList& keys, KeyHead head, Interval part, const KeyValueTile& to) {
  copy_rows(rows_of(a, a.v, a.v_row, a.value_dim, head), keys, part, to.v, to.v_ld);
}

F32Rows f32_k(const Attention& a, const KeyList& keys, KeyHead head, Interval part,
              const KeyValueTile& scratch) {
  if (a.kv_dtype == DType::f32 && keys.contiguous(part.begin, part.size())) {
    const void* first = rows_of(a, a.k, a.k_row, a.head_dim, head).at(keys.slot(part.begin));
    return {static_cast<const float*>(first), a.k_row};
  }
  copy_k(a, keys, head, part, scratch);
  return {scratch.k, scratch.k_ld};
}

StoredTile stored_keys(const Attention& a, const KeyList& keys, KeyHead head, Interval part,
                       const KeyValueTile& scratch) {
  if (!keys.contiguous(part.begin, part.size())) {
    copy_k(a, keys, head, part, scratch);
    copy_v(a, keys, head, part, scratch);
    return {scratch.k, scratch.k_ld, scratch.v, scratch.v_ld, DType::f32};
  }
  const int64_t slot = keys.slot(part.begin);
  return {rows_of(a, a.k, a.k_row, a.head_dim, head).at(slot), a.k_row,
          rows_of(a, a.v, a.v_row, a.value_dim, head).at(slot), a.v_row, a.kv_dtype};
}

}  // namespace plumb
