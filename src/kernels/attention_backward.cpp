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

// A tile of queries of one head, and where its gradients go.
struct BackwardTile {
  const Attention& a;
  const AttentionGradient& g;
  const KeyList& keys;
  const QueryTile& q;
  KeyGradients out;
  AttentionScratch& s;
  Rows query, dout, dq;
};

// The step's probabilities (after dropout) into s.scores, and the gradients of its scores into s.dp.
void score_gradients(const BackwardTile& t, const TilePart& part, const KeyValueTile& kv) {
  const Attention& a = t.a;
  gemm_serial({.m = part.count,
               .n = part.n,
               .k = a.head_dim,
               .a = t.query.row(part.r),
               .lda = t.query.ld,
               .b = kv.k,
               .ldb = kv.k_ld,
               .b_transposed = true,
               .c = t.s.scores,
               .ldc = t.s.ld,
               .alpha = a.scale});
  gemm_serial({.m = part.count,
               .n = part.n,
               .k = a.value_dim,
               .a = t.dout.row(part.r),
               .lda = t.dout.ld,
               .b = kv.v,
               .ldb = kv.v_ld,
               .b_transposed = true,
               .c = t.s.dp,
               .ldc = t.s.ld});
  const float* lse = a.lse + (t.q.b * a.heads + t.q.h) * a.queries + t.q.query(part.r);
  softmax_gradient_tile(score_tile(a, t.keys, part, t.s), t.s.dp, lse, t.s.sum + part.r);
}

// Straight into dK and dV where the step's slots follow each other, else by way of scratch.
void key_gradients(const BackwardTile& t, const TilePart& part) {
  const Attention& a = t.a;
  const bool contiguous = t.keys.contiguous(part.i, part.n);
  const int64_t slot = t.keys.slot(part.i);
  const float beta = contiguous ? 1.0f : 0.0f;
  gemm_serial({.m = part.n,
               .n = a.value_dim,
               .k = part.count,
               .a = t.s.scores,
               .lda = t.s.ld,
               .a_transposed = true,
               .b = t.dout.row(part.r),
               .ldb = t.dout.ld,
               .c = contiguous ? t.out.dv + slot * t.g.dv_row : t.s.dkv.v,
               .ldc = contiguous ? t.g.dv_row : a.value_dim,
               .beta = beta});
  gemm_serial({.m = part.n,
               .n = a.head_dim,
               .k = part.count,
               .a = t.s.dp,
               .lda = t.s.ld,
               .a_transposed = true,
               .b = t.query.row(part.r),
               .ldb = t.query.ld,
               .c = contiguous ? t.out.dk + slot * t.g.dk_row : t.s.dkv.k,
               .ldc = contiguous ? t.g.dk_row : a.head_dim,
               .alpha = a.scale,
               .beta = beta});
  if (contiguous) return;
  add_rows(t.keys, part, a.head_dim, t.s.dkv.k, t.out.dk, t.g.dk_row);
  add_rows(t.keys, part, a.value_dim, t.s.dkv.v, t.out.dv, t.g.dv_row);
}

void backward_step(const BackwardTile& t, const TilePart& part) {
  const Attention& a = t.a;
  if (part.n <= 0 || !describe_rows(a, t.keys, t.q, part, t.s.rows)) return;
  const KeyValueTile kv = load_tile(a, t.keys, t.q.b, t.q.g, part.i, part.n, t.s.kv);
  const Interval all = seen_by_all(t.s.rows, part.count);
  const bool whole = all.begin == 0 && all.end == part.n;
  if (part.count > 1 && !whole &&
      !(hidden_rows_finite(all, part.n, a.head_dim, kv.k, kv.k_ld) &&
        all_finite(part.count, a.head_dim, t.query.row(part.r), t.query.ld) &&
        all_finite(part.count, a.value_dim, t.dout.row(part.r), t.dout.ld))) {
    return row_by_row(t.s.rows, part, [&](const TilePart& row) { backward_step(t, row); });
  }
  score_gradients(t, part, kv);
  gemm_serial({.m = part.count,
               .n = a.head_dim,
               .k = part.n,
               .a = t.s.dp,
               .lda = t.s.ld,
               .b = kv.k,
               .ldb = kv.k_ld,
               .c = t.dq.row(part.r),
               .ldc = t.dq.ld,
               .alpha = a.scale,
               .beta = 1.0f});
  key_gradients(t, part);
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
      const BackwardTile tile{.a = a,
                              .g = g,
                              .keys = keys,
                              .q = q,
                              .out = out,
                              .s = s,
                              .query = rows_of(a, q, a.q, a.q_row, a.head_dim),
                              .dout = rows_of(a, q, g.dout, g.dout_row, a.value_dim),
                              .dq = rows_of(a, q, g.dq, g.dq_row, a.head_dim)};
      const Rows result = rows_of(a, q, a.out, a.out_row, a.value_dim);
      if (!g.add_dq) clear_rows(tile.dq.data, q.count, a.head_dim, tile.dq.ld);
      row_dots(q.count, a.value_dim, tile.dout.data, tile.dout.ld, result.data, result.ld, s.sum);
      const Interval seen = seen_by_any(a, keys, q);
      for (int64_t i = seen.begin; i < seen.end; i += kTileKeys) {
        backward_step(tile, {0, q.count, i, std::min(kTileKeys, seen.end - i)});
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
