// The tiles of attention: rows of queries against runs of keys, and a thread's memory for them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/attention.h"
#include "kernels/attention_keys.h"
#include "kernels/attention_softmax.h"

namespace plumb {

// Two (rows, keys) tiles of scores, a tile of keys and one of values stay in a core's second-level cache.
constexpr int64_t kTileRows = 64;
constexpr int64_t kTileKeys = 512;

// One thread's arrays.
struct AttentionScratch {
  explicit AttentionScratch(const Attention& a);

  std::shared_ptr<void> memory;
  int64_t ld;
  float* scores;            // (kTileRows, ld)
  float* dp;                // (kTileRows, ld), or a decoding step's scaled queries (kTileRows, D)
  KeyValueScratch kv, dkv;  // (kTileKeys, D) and (kTileKeys, value_dim)
  float *max, *sum;         // (kTileRows); in the backward, sum is delta
  ScoreRow rows[kTileRows];
};

// Rows of Q and out that one thread takes at a time: successive queries of a head, or, where there is one
// query, the heads that share a kv head, so that its keys are read once.
struct QueryTile {
  int64_t b, g, h, t, count;
  bool of_heads;
  int64_t head(int64_t r) const { return of_heads ? h + r : h; }
  int64_t query(int64_t r) const { return of_heads ? t : t + r; }
};

struct Rows {
  float* data;
  int64_t ld;
  float* row(int64_t r) const { return data + r * ld; }
};

Rows rows_of(const Attention& a, const QueryTile& q, const float* base, int64_t row, int64_t width);

// Rows [r, r + count) of a query tile and keys [i, i + n).
struct TilePart {
  int64_t r, count, i, n;
};

// Each row's visible scores; false if there are none.
bool describe_rows(const Attention& a, const KeyList& keys, const QueryTile& q, const TilePart& part,
                   ScoreRow* rows);

ScoreTile score_tile(const Attention& a, const KeyList& keys, const TilePart& part,
                     const AttentionScratch& s);

// Keys of the tile that every row sees.
Interval seen_by_all(const ScoreRow* rows, int64_t count);

// Keys that the tile's queries see between them.
Interval seen_by_any(const Attention& a, const KeyList& keys, const QueryTile& q);

// Whether the rows of x that belong to keys outside `all` are finite: then a weight of 0 makes them 0 in a
// product.
bool hidden_rows_finite(Interval all, int64_t n, int64_t width, const float* x, int64_t ld);

// A tile whose products would read a hidden NaN or infinity is taken row by row, each with its visible keys
// only.
template <class Step>
void row_by_row(const ScoreRow* rows, const TilePart& part, const Step& step) {
  std::vector<ScoreRow> seen(rows, rows + part.count);
  for (int64_t j = 0; j < part.count; ++j) {
    step({part.r + j, 1, part.i + seen[j].begin, seen[j].end - seen[j].begin});
  }
}

void check_attention(const Attention& a);

}  // namespace plumb
