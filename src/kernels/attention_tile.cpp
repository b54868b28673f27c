#include "kernels/attention_tile.h"

#include <hwy/cache_control.h>

#include <algorithm>

#include "base/check.h"
#include "tensor/memory.h"

namespace plumb {
namespace {

// The distance of rows of `width` numbers: whole cache lines, an odd number of them, so that successive rows
// use all of a cache.
int64_t row_distance(int64_t width) {
  return ((width + 15) / 16 | 1) * 16;
}

}  // namespace

AttentionScratch::AttentionScratch(const Attention& a) {
  static_assert(kTileKeys % kScoreAlignment == 0);
  const int64_t keys = kTileKeys, state = kRunTiles * kTileRows;
  const int64_t key_ld = row_distance(keys), k_ld = row_distance(a.head_dim),
                v_ld = row_distance(a.value_dim);
  scores.ld = dp.ld = transposed.k_ld = transposed.v_ld = key_ld;
  query.ld = kv.k_ld = dkv.k_ld = k_ld;
  dout.ld = kv.v_ld = dkv.v_ld = v_ld;
  const struct {
    float** array;
    int64_t size;
  } arrays[] = {{&scores.data, kTileRows * key_ld},
                {&dp.data, kTileRows * key_ld},
                {&query.data, kTileRows * k_ld},
                {&dout.data, kTileRows * v_ld},
                {&kv.k, keys * k_ld},
                {&kv.v, keys * v_ld},
                {&dkv.k, keys * k_ld},
                {&dkv.v, keys * v_ld},
                {&transposed.k, a.head_dim * key_ld},
                {&transposed.v, a.value_dim * key_ld},
                {&max, state},
                {&sum, state}};
  int64_t total = 0;
  for (const auto& x : arrays) total += x.size;
  memory = allocate_memory(total * sizeof(float));
  float* next = static_cast<float*>(memory.get());
  for (const auto& x : arrays) {
    *x.array = next;
    next += x.size;
  }
}

Rows rows_of(const Attention& a, const QueryTile& q, const float* base, int64_t row, int64_t width) {
  return {const_cast<float*>(base) + (q.b * a.queries + q.t) * row + q.h * width, q.of_heads ? width : row};
}

void clear_rows(int64_t rows, int64_t width, Rows x) {
  for (int64_t r = 0; r < rows; ++r) std::fill_n(x.row(r), width, 0.0f);
}

void copy_rows(int64_t rows, int64_t width, Rows from, Rows to) {
  for (int64_t r = 0; r < rows; ++r) std::copy_n(from.row(r), width, to.row(r));
}

void prefetch_rows(int64_t rows, int64_t width, Rows x) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t d = 0; d < width; d += 16) hwy::Prefetch(x.row(r) + d);
  }
}

Interval seen_by_any(const Attention& a, const KeyList& keys, const QueryTile& q) {
  return {visible_keys(a, keys, q.query(0)).begin, visible_keys(a, keys, q.query(q.count - 1)).end};
}

ScoreTile describe_rows(const Attention& a, const KeyList& keys, const QueryTile& q, Interval part,
                        AttentionScratch& s) {
  for (int64_t r = 0; r < q.count; ++r) {
    const int64_t t = q.query(r), h = q.head(r);
    const Interval seen = visible_keys(a, keys, t);
    s.seen[r] = {std::clamp<int64_t>(seen.begin - part.begin, 0, part.size()),
                 std::clamp<int64_t>(seen.end - part.begin, 0, part.size())};
    s.rows[r] = {.query_slot = a.first_query + t,
                 .alibi_slope = a.alibi_slopes ? a.alibi_slopes[h] : 0.0f,
                 .first_pair = static_cast<uint64_t>(((q.b * a.heads + h) * a.queries + t) * a.keys)};
  }
  const bool contiguous = keys.contiguous(part.begin, part.size());
  return {.row_count = q.count,
          .key_count = part.size(),
          .scores = s.scores.data,
          .ld = s.scores.ld,
          .rows = s.rows,
          .seen = s.seen,
          .alibi = a.alibi_slopes != nullptr,
          .softcap = a.softcap,
          .first_slot = keys.slot(part.begin),
          .slots = contiguous ? nullptr : keys.slots.data() + part.begin,
          .dropout = a.dropout,
          .dropout_key = a.dropout_key};
}

void check_attention(const Attention& a) {
  PLUMB_CHECK(a.kv_heads > 0 && a.heads % a.kv_heads == 0, "{} heads over {} kv heads", a.heads, a.kv_heads);
  PLUMB_CHECK(a.head_dim > 0 && a.value_dim > 0 && a.queries >= 0 && a.keys >= 0 && a.keys <= a.kv_rows,
              "T {}, S {} of {} rows, D {}, {}", a.queries, a.keys, a.kv_rows, a.head_dim, a.value_dim);
  PLUMB_CHECK(a.q_row >= a.heads * a.head_dim && a.k_row >= a.kv_heads * a.head_dim &&
                  a.v_row >= a.kv_heads * a.value_dim && a.out_row >= a.heads * a.value_dim,
              "rows are {}, {}, {}, {} apart", a.q_row, a.k_row, a.v_row, a.out_row);
  PLUMB_CHECK(a.kv_dtype == DType::f32 || a.kv_dtype == DType::bf16, "keys are {}", dtype_name(a.kv_dtype));
  PLUMB_CHECK(!a.first_keys || (a.causal && a.first_query == 0), "packed rows are causal and whole");
  PLUMB_CHECK(a.softcap >= 0 && (a.softcap == 0 || !a.alibi_slopes), "softcap {}", a.softcap);
  PLUMB_CHECK(a.dropout >= 0 && a.dropout < 1 && a.window >= 0 && a.first_query >= 0);
}

}  // namespace plumb
