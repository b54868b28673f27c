#include <algorithm>
#include <limits>

#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/attention_tile.h"
#include "kernels/gemm.h"
#include "kernels/gemv.h"

namespace plumb {
namespace {

// One query: its heads' rows go through K and V as they are stored, which costs one pass over memory.
void decode_step(const Attention& a, const KeyList& keys, const QueryTile& q, const TilePart& part,
                 AttentionScratch& s) {
  const Rows query = rows_of(a, q, a.q, a.q_row, a.head_dim),
             out = rows_of(a, q, a.out, a.out_row, a.value_dim);
  float* scaled = s.dp;
  for (int64_t r = 0; r < part.count; ++r) {
    for (int64_t d = 0; d < a.head_dim; ++d) scaled[r * a.head_dim + d] = a.scale * query.row(r)[d];
  }
  const StoredTile kv = stored_tile(a, keys, q.b, q.g, part.i);
  gemv_serial({.m = part.count,
               .n = part.n,
               .k = a.head_dim,
               .a = {scaled, DType::f32, a.head_dim},
               .b = {kv.k, a.kv_dtype, a.k_row, true},
               .c = s.scores,
               .ldc = s.ld});
  softmax_tile(score_tile(a, keys, part, s),
               {.max = s.max, .sum = s.sum, .out = out.data, .out_ld = out.ld, .width = a.value_dim});
  gemv_serial({.m = part.count,
               .n = a.value_dim,
               .k = part.n,
               .a = {s.scores, DType::f32, s.ld},
               .b = {kv.v, a.kv_dtype, a.v_row},
               .c = out.data,
               .ldc = out.ld,
               .add = true});
}

void forward_step(const Attention& a, const KeyList& keys, const QueryTile& q, const TilePart& part,
                  AttentionScratch& s) {
  if (part.n <= 0 || !describe_rows(a, keys, q, part, s.rows)) return;
  if (q.of_heads && keys.contiguous(part.i, part.n)) return decode_step(a, keys, q, part, s);
  const KeyValueTile kv = load_tile(a, keys, q.b, q.g, part.i, part.n, s.kv);
  const Interval all = seen_by_all(s.rows, part.count);
  if (part.count > 1 && !hidden_rows_finite(all, part.n, a.value_dim, kv.v, kv.v_ld)) {
    return row_by_row(s.rows, part, [&](const TilePart& row) { forward_step(a, keys, q, row, s); });
  }
  const Rows query = rows_of(a, q, a.q, a.q_row, a.head_dim),
             out = rows_of(a, q, a.out, a.out_row, a.value_dim);
  gemm_serial({.m = part.count,
               .n = part.n,
               .k = a.head_dim,
               .a = query.row(part.r),
               .lda = query.ld,
               .b = kv.k,
               .ldb = kv.k_ld,
               .b_transposed = true,
               .c = s.scores,
               .ldc = s.ld,
               .alpha = a.scale});
  softmax_tile(score_tile(a, keys, part, s), {.max = s.max + part.r,
                                              .sum = s.sum + part.r,
                                              .out = out.row(part.r),
                                              .out_ld = out.ld,
                                              .width = a.value_dim});
  gemm_serial({.m = part.count,
               .n = a.value_dim,
               .k = part.n,
               .a = s.scores,
               .lda = s.ld,
               .b = kv.v,
               .ldb = kv.v_ld,
               .c = out.row(part.r),
               .ldc = out.ld,
               .beta = 1.0f});
}

void forward_tile(const Attention& a, const KeyList& keys, const QueryTile& q, AttentionScratch& s) {
  const Rows out = rows_of(a, q, a.out, a.out_row, a.value_dim);
  for (int64_t r = 0; r < q.count; ++r) std::fill_n(out.row(r), a.value_dim, 0.0f);
  std::fill_n(s.max, q.count, -std::numeric_limits<float>::infinity());
  std::fill_n(s.sum, q.count, 0.0f);
  const Interval seen = seen_by_any(a, keys, q);
  for (int64_t i = seen.begin; i < seen.end; i += kTileKeys) {
    forward_step(a, keys, q, {0, q.count, i, std::min(kTileKeys, seen.end - i)}, s);
  }
  float lse[kTileRows];
  softmax_finish(q.count,
                 {.max = s.max, .sum = s.sum, .out = out.data, .out_ld = out.ld, .width = a.value_dim}, lse);
  if (!a.lse) return;
  for (int64_t r = 0; r < q.count; ++r) a.lse[(q.b * a.heads + q.head(r)) * a.queries + q.query(r)] = lse[r];
}

}  // namespace

void attention_forward(const Attention& a) {
  check_attention(a);
  const std::vector<KeyList> keys = list_keys(a);
  const bool of_heads = a.queries == 1;
  const int64_t group = a.heads / a.kv_heads;
  const int64_t sets = of_heads ? a.kv_heads : a.heads, set_rows = of_heads ? group : a.queries;
  const int64_t tiles = (set_rows + kTileRows - 1) / kTileRows;
#pragma omp parallel
  {
    AttentionScratch scratch(a);
    // The last tiles see the most keys, so they go first.
#pragma omp for schedule(dynamic)
    for (int64_t unit = 0; unit < a.batch * sets * tiles; ++unit) {
      const int64_t set = unit / tiles % sets, first = (tiles - 1 - unit % tiles) * kTileRows;
      QueryTile q{.b = unit / tiles / sets,
                  .g = of_heads ? set : set / group,
                  .h = of_heads ? set * group + first : set,
                  .t = of_heads ? 0 : first,
                  .count = std::min(kTileRows, set_rows - first),
                  .of_heads = of_heads};
      forward_tile(a, keys[q.b], q, scratch);
    }
  }
}

}  // namespace plumb
