// The tiles of attention: rows of queries against runs of keys, and a thread's memory for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "kernels/attention.h"
#include "kernels/attention_keys.h"
#include "kernels/attention_softmax.h"

namespace plumb {

// Two (rows, keys) tiles of scores, and a tile of keys and one of values with their transposes, stay in a
// core's second-level cache.
constexpr int64_t kTileRows = 64;
constexpr int64_t kTileKeys = 512;
constexpr int64_t kRunTiles = 8;  // query tiles that a thread takes together

struct Rows {
  float* data;
  int64_t ld;
  float* row(int64_t r) const { return data + r * ld; }
};

// One thread's arrays, as large for one key as for many, so that a growing cache asks for no new memory.
// Tiles of Q, V, dout and, in the backward, K are copied here: where rows lie thousands of numbers apart, as
// in a fused buffer, the columns that a product takes compete for few cache lines.
struct AttentionScratch {
  explicit AttentionScratch(const Attention& a);

  std::shared_ptr<void> memory;
  Rows scores, dp;          // (kTileRows, kTileKeys)
  Rows query, dout;         // (kTileRows, D) and (kTileRows, value_dim)
  KeyValueTile kv, dkv;     // (kTileKeys, D) and (kTileKeys, value_dim)
  KeyValueTile transposed;  // (D, kTileKeys) and (value_dim, kTileKeys)
  float *max, *sum;         // (kRunTiles * kTileRows); in the backward, sum is delta
  ScoreRow rows[kTileRows];
  Interval seen[kTileRows];  // each row's visible keys of the part at hand
};

// Rows of Q and out that are taken at a time: successive queries of a head, or, where there is one query, the
// heads that share a kv head, so that its keys are read once.
struct QueryTile {
  int64_t b, g, h, t, count;
  bool of_heads;
  int64_t head(int64_t r) const { return of_heads ? h + r : h; }
  int64_t query(int64_t r) const { return of_heads ? t : t + r; }
};

Rows rows_of(const Attention& a, const QueryTile& q, const float* base, int64_t row, int64_t width);
void clear_rows(int64_t rows, int64_t width, Rows x);
void copy_rows(int64_t rows, int64_t width, Rows from, Rows to);
// For the tile after the one at hand: processors do not follow short rows that lie far apart.
void prefetch_rows(int64_t rows, int64_t width, Rows x);

// The tile of keys from i on. Tiles end where kTileKeys divides, whatever the first key: a query's sums do
// not depend on the queries that its thread takes with it.
inline Interval key_tile(int64_t i, int64_t end) {
  return {i, std::min(end, (i / kTileKeys + 1) * kTileKeys)};
}

// Keys that the tile's queries see between them.
Interval seen_by_any(const Attention& a, const KeyList& keys, const QueryTile& q);

// Each row of a query tile against the keys of `part`, into s.rows and s.seen; the scores that belong to
// them.
ScoreTile describe_rows(const Attention& a, const KeyList& keys, const QueryTile& q, Interval part,
                        AttentionScratch& s);

void check_attention(const Attention& a);

}  // namespace plumb
