#include "kernels/attention_tile.h"

#include <algorithm>

#include "base/check.h"
#include "tensor/memory.h"

namespace plumb {
namespace {

int64_t round_up(int64_t n, int64_t step) {
  return (n + step - 1) / step * step;
}

}  // namespace

AttentionScratch::AttentionScratch(const Attention& a) {
  const int64_t keys = std::min(kTileKeys, a.keys);
  ld = round_up(keys, kScoreAlignment);
  const int64_t k = keys * a.head_dim, v = keys * a.value_dim;
  const int64_t sizes[] = {kTileRows * ld, kTileRows * std::max(ld, a.head_dim), k, v, k, v, kTileRows,
                           kTileRows};
  float** const arrays[] = {&scores, &dp, &kv.k, &kv.v, &dkv.k, &dkv.v, &max, &sum};
  int64_t total = 0;
  for (const int64_t size : sizes) total += round_up(size, 16);
  memory = allocate_memory(total * sizeof(float));
  float* next = static_cast<float*>(memory.get());
  for (size_t i = 0; i < std::size(sizes); ++i) {
    *arrays[i] = next;
    next += round_up(sizes[i], 16);
  }
}

Rows rows_of(const Attention& a, const QueryTile& q, const float* base, int64_t row, int64_t width) {
  return {const_cast<float*>(base) + (q.b * a.queries + q.t) * row + q.h * width, q.of_heads ? width : row};
}

bool describe_rows(const Attention& a, const KeyList& keys, const QueryTile& q, const TilePart& part,
                   ScoreRow* rows) {
  bool any = false;
  for (int64_t j = 0; j < part.count; ++j) {
    const int64_t t = q.query(part.r + j), h = q.head(part.r + j);
    const Interval seen = visible_keys(a, keys, t);
    ScoreRow& row = rows[j];
    row.begin = std::clamp<int64_t>(seen.begin - part.i, 0, part.n);
    row.end = std::clamp<int64_t>(seen.end - part.i, 0, part.n);
    row.query_slot = a.first_query + t;
    row.alibi_slope = a.alibi_slopes ? a.alibi_slopes[h] : 0.0f;
    row.first_pair = static_cast<uint64_t>(((q.b * a.heads + h) * a.queries + t) * a.keys);
    any |= row.begin < row.end;
  }
  return any;
}

ScoreTile score_tile(const Attention& a, const KeyList& keys, const TilePart& part,
                     const AttentionScratch& s) {
  const bool contiguous = keys.contiguous(part.i, part.n);
  return {.row_count = part.count,
          .key_count = part.n,
          .scores = s.scores,
          .ld = s.ld,
          .rows = s.rows,
          .alibi = a.alibi_slopes != nullptr,
          .first_slot = keys.slot(part.i),
          .slots = contiguous ? nullptr : keys.slots.data() + part.i,
          .dropout = a.dropout,
          .dropout_key = a.dropout_key};
}

Interval seen_by_all(const ScoreRow* rows, int64_t count) {
  Interval all{rows[0].begin, rows[0].end};
  for (int64_t r = 1; r < count; ++r) {
    all.begin = std::max(all.begin, rows[r].begin);
    all.end = std::min(all.end, rows[r].end);
  }
  return all;
}

Interval seen_by_any(const Attention& a, const KeyList& keys, const QueryTile& q) {
  return {visible_keys(a, keys, q.query(0)).begin, visible_keys(a, keys, q.query(q.count - 1)).end};
}

bool hidden_rows_finite(Interval all, int64_t n, int64_t width, const float* x, int64_t ld) {
  if (all.empty()) return all_finite(n, width, x, ld);
  return all_finite(all.begin, width, x, ld) && all_finite(n - all.end, width, x + all.end * ld, ld);
}

void check_attention(const Attention& a) {
  PLUMB_CHECK(a.kv_heads > 0 && a.heads % a.kv_heads == 0, "{} heads over {} kv heads", a.heads, a.kv_heads);
  PLUMB_CHECK(a.head_dim > 0 && a.value_dim > 0 && a.queries >= 0 && a.keys >= 0 && a.keys <= a.kv_rows,
              "T {}, S {} of {} rows, D {}, {}", a.queries, a.keys, a.kv_rows, a.head_dim, a.value_dim);
  PLUMB_CHECK(a.q_row >= a.heads * a.head_dim && a.k_row >= a.kv_heads * a.head_dim &&
                  a.v_row >= a.kv_heads * a.value_dim && a.out_row >= a.heads * a.value_dim,
              "rows are {}, {}, {}, {} apart", a.q_row, a.k_row, a.v_row, a.out_row);
  PLUMB_CHECK(a.kv_dtype == DType::f32 || a.kv_dtype == DType::bf16, "keys are {}", dtype_name(a.kv_dtype));
  PLUMB_CHECK(a.dropout >= 0 && a.dropout < 1 && a.window >= 0 && a.first_query >= 0);
}

}  // namespace plumb
