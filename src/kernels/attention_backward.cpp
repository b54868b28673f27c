#include <algorithm>

#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/attention_tile.h"
#include "kernels/gemm.h"

namespace plumb {
namespace {

void add_rows(const KeyList& keys, const TilePart& part, int64_t width, const float* from, float* to,
              int64_t ld) {
  for (int64_t j = 0; j < part.n; ++j) {
    float* row = to + keys.slot(part.i + j) * ld;
    for (int64_t d = 0; d < width; ++d) row[d] += from[j * width + d];
  }
}

// dK and dV of one sequence and kv head.
struct KeyGradients {
  float *dk, *dv;
};

void backward_step(const Attention& a, const AttentionGradient& g, const KeyList& keys, const QueryTile& q,
                   const TilePart& part, KeyGradients out, AttentionScratch& s) {
  if (part.n <= 0 || !describe_rows(a, keys, q, part, s.rows)) return;
  const KeyValueTile kv = load_tile(a, keys, q.b, q.g, part.i, part.n, s.kv);
  const Rows query = rows_of(a, q, a.q, a.q_row, a.head_dim);
  const Rows dout = rows_of(a, q, g.dout, g.dout_row, a.value_dim);
  const Rows dq = rows_of(a, q, g.dq, g.dq_row, a.head_dim);
  const Interval all = seen_by_all(s.rows, part.count);
  const bool whole = all.begin == 0 && all.end == part.n;
  if (part.count > 1 && !whole &&
      !(hidden_rows_finite(all, part.n, a.head_dim, kv.k, kv.k_ld) &&
        all_finite(part.count, a.head_dim, query.row(part.r), query.ld) &&
        all_finite(part.count, a.value_dim, dout.row(part.r), dout.ld))) {
    return row_by_row(s.rows, part, [&](const TilePart& row) { backward_step(a, g, keys, q, row, out, s); });
  }
  GemmTile scores{.m = part.count,
                  .n = part.n,
                  .k = a.head_dim,
                  .a = query.row(part.r),
                  .lda = query.ld,
                  .b = kv.k,
                  .ldb = kv.k_ld,
                  .b_transposed = true,
                  .c = s.scores,
                  .ldc = s.ld,
                  .alpha = a.scale};
  GemmTile dp{.m = part.count,
              .n = part.n,
              .k = a.value_dim,
              .a = dout.row(part.r),
              .lda = dout.ld,
              .b = kv.v,
              .ldb = kv.v_ld,
              .b_transposed = true,
              .c = s.dp,
              .ldc = s.ld};
  gemm_serial(scores);
  gemm_serial(dp);
  const float* lse = a.lse + (q.b * a.heads + q.h) * a.queries + q.query(part.r);
  softmax_gradient_tile(score_tile(a, keys, part, s), s.dp, lse, s.sum + part.r);

  // Straight into dK and dV where the tile's slots follow each other, else by way of scratch.
  const bool contiguous = keys.contiguous(part.i, part.n);
  const int64_t slot = keys.slot(part.i);
  float* dk = contiguous ? out.dk + slot * g.dk_row : s.dkv.k;
  float* dv = contiguous ? out.dv + slot * g.dv_row : s.dkv.v;
  const float beta = contiguous ? 1.0f : 0.0f;
  gemm_serial({.m = part.n,
               .n = a.value_dim,
               .k = part.count,
               .a = s.scores,
               .lda = s.ld,
               .a_transposed = true,
               .b = dout.row(part.r),
               .ldb = dout.ld,
               .c = dv,
               .ldc = contiguous ? g.dv_row : a.value_dim,
               .beta = beta});
  gemm_serial({.m = part.count,
               .n = a.head_dim,
               .k = part.n,
               .a = s.dp,
               .lda = s.ld,
               .b = kv.k,
               .ldb = kv.k_ld,
               .c = dq.row(part.r),
               .ldc = dq.ld,
               .alpha = a.scale,
               .beta = 1.0f});
  gemm_serial({.m = part.n,
               .n = a.head_dim,
               .k = part.count,
               .a = s.dp,
               .lda = s.ld,
               .a_transposed = true,
               .b = query.row(part.r),
               .ldb = query.ld,
               .c = dk,
               .ldc = contiguous ? g.dk_row : a.head_dim,
               .alpha = a.scale,
               .beta = beta});
  if (!contiguous) {
    add_rows(keys, part, a.head_dim, s.dkv.k, out.dk, g.dk_row);
    add_rows(keys, part, a.value_dim, s.dkv.v, out.dv, g.dv_row);
  }
}

void clear_rows(float* x, int64_t rows, int64_t width, int64_t ld) {
  for (int64_t r = 0; r < rows; ++r) std::fill_n(x + r * ld, width, 0.0f);
}

// All gradients that meet in one kv head of one sequence.
void backward_head(const Attention& a, const AttentionGradient& g, const KeyList& keys, int64_t b,
                   int64_t kv_head, AttentionScratch& s) {
  const int64_t group = a.heads / a.kv_heads;
  const KeyGradients out{g.dk + b * a.kv_rows * g.dk_row + kv_head * a.head_dim,
                         g.dv + b * a.kv_rows * g.dv_row + kv_head * a.value_dim};
  if (!g.add_dk) clear_rows(out.dk, a.keys, a.head_dim, g.dk_row);
  if (!g.add_dv) clear_rows(out.dv, a.keys, a.value_dim, g.dv_row);
  for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    for (int64_t t = 0; t < a.queries; t += kTileRows) {
      const QueryTile q{.b = b,
                        .g = kv_head,
                        .h = h,
                        .t = t,
                        .count = std::min(kTileRows, a.queries - t),
                        .of_heads = false};
      const Rows dout = rows_of(a, q, g.dout, g.dout_row, a.value_dim);
      const Rows result = rows_of(a, q, a.out, a.out_row, a.value_dim);
      const Rows dq = rows_of(a, q, g.dq, g.dq_row, a.head_dim);
      if (!g.add_dq) clear_rows(dq.data, q.count, a.head_dim, dq.ld);
      row_dots(q.count, a.value_dim, dout.data, dout.ld, result.data, result.ld, s.sum);
      const Interval seen = seen_by_any(a, keys, q);
      for (int64_t i = seen.begin; i < seen.end; i += kTileKeys) {
        backward_step(a, g, keys, q, {0, q.count, i, std::min(kTileKeys, seen.end - i)}, out, s);
      }
    }
  }
}

}  // namespace

void attention_backward(const Attention& a, const AttentionGradient& g) {
  check_attention(a);
  PLUMB_CHECK(a.kv_dtype == DType::f32 && (a.lse || a.batch * a.queries == 0));
  PLUMB_CHECK(g.dq_row >= a.heads * a.head_dim && g.dk_row >= a.kv_heads * a.head_dim &&
                  g.dv_row >= a.kv_heads * a.value_dim && g.dout_row >= a.heads * a.value_dim,
              "rows are {}, {}, {}, {} apart", g.dq_row, g.dk_row, g.dv_row, g.dout_row);
  const std::vector<KeyList> keys = list_keys(a);
#pragma omp parallel
  {
    AttentionScratch scratch(a);
#pragma omp for schedule(dynamic)
    for (int64_t unit = 0; unit < a.batch * a.kv_heads; ++unit) {
      backward_head(a, g, keys[unit / a.kv_heads], unit / a.kv_heads, unit % a.kv_heads, scratch);
    }
  }
}

}  // namespace plumb
