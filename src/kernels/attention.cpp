#include "kernels/attention.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "base/check.h"
#include "kernels/attention_softmax.h"
#include "kernels/attention_tile.h"
#include "kernels/gemm.h"
#include "tensor/memory.h"

namespace plumb {
namespace {

// Two (rows, keys) tiles of scores, a tile of keys and one of values stay in a core's second-level cache.
constexpr int64_t kTileRows = 64;
constexpr int64_t kTileKeys = 512;

int64_t round_up(int64_t n, int64_t step) {
  return (n + step - 1) / step * step;
}

// One thread's arrays.
struct Scratch {
  explicit Scratch(const Attention& a) {
    const int64_t keys = std::min(kTileKeys, a.keys);
    ld = round_up(keys, kScoreAlignment);
    const int64_t sizes[] = {kTileRows * ld,    kTileRows * ld,     keys * a.head_dim, keys * a.value_dim,
                             keys * a.head_dim, keys * a.value_dim, kTileRows,         kTileRows};
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

  std::shared_ptr<void> memory;
  int64_t ld;
  float *scores, *dp;       // (kTileRows, ld)
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

Rows rows_of(const Attention& a, const QueryTile& q, const float* base, int64_t row, int64_t width) {
  return {const_cast<float*>(base) + (q.b * a.queries + q.t) * row + q.h * width, q.of_heads ? width : row};
}

// The tile of rows [r, r + count) of `q` and keys [i, i + n): each row's visible part. False if there is
// none.
struct TilePart {
  int64_t r, count, i, n;
};

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

ScoreTile score_tile(const Attention& a, const KeyList& keys, const TilePart& part, const Scratch& s) {
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

// Keys of the tile that some row does not see: those before `begin` and from `end` on.
Interval seen_by_all(const ScoreRow* rows, int64_t count) {
  Interval all{rows[0].begin, rows[0].end};
  for (int64_t r = 1; r < count; ++r) {
    all.begin = std::max(all.begin, rows[r].begin);
    all.end = std::min(all.end, rows[r].end);
  }
  return all;
}

// Whether the rows of x that belong to keys outside `all` are finite: then a weight of 0 makes them 0 in a
// product.
bool hidden_rows_finite(Interval all, int64_t n, int64_t width, const float* x, int64_t ld) {
  if (all.empty()) return all_finite(n, width, x, ld);
  return all_finite(all.begin, width, x, ld) && all_finite(n - all.end, width, x + all.end * ld, ld);
}

// A tile whose products would read a hidden NaN or infinity is taken row by row, each with its visible keys
// only.
template <class Step>
void row_by_row(const ScoreRow* rows, const TilePart& part, const Step& step) {
  std::vector<ScoreRow> seen(rows, rows + part.count);
  for (int64_t j = 0; j < part.count; ++j) {
    step({part.r + j, 1, part.i + seen[j].begin, seen[j].end - seen[j].begin});
  }
}

void forward_step(const Attention& a, const KeyList& keys, const QueryTile& q, const TilePart& part,
                  Scratch& s) {
  if (part.n <= 0 || !describe_rows(a, keys, q, part, s.rows)) return;
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

// Keys that the tile's queries see between them.
Interval seen_by_any(const Attention& a, const KeyList& keys, const QueryTile& q) {
  return {visible_keys(a, keys, q.query(0)).begin, visible_keys(a, keys, q.query(q.count - 1)).end};
}

void forward_tile(const Attention& a, const KeyList& keys, const QueryTile& q, Scratch& s) {
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

void check(const Attention& a) {
  PLUMB_CHECK(a.kv_heads > 0 && a.heads % a.kv_heads == 0, "{} heads over {} kv heads", a.heads, a.kv_heads);
  PLUMB_CHECK(a.head_dim > 0 && a.value_dim > 0 && a.queries >= 0 && a.keys >= 0 && a.keys <= a.kv_rows,
              "T {}, S {} of {} rows, D {}, {}", a.queries, a.keys, a.kv_rows, a.head_dim, a.value_dim);
  PLUMB_CHECK(a.q_row >= a.heads * a.head_dim && a.k_row >= a.kv_heads * a.head_dim &&
                  a.v_row >= a.kv_heads * a.value_dim && a.out_row >= a.heads * a.value_dim,
              "rows are {}, {}, {}, {} apart", a.q_row, a.k_row, a.v_row, a.out_row);
  PLUMB_CHECK(a.kv_dtype == DType::f32 || a.kv_dtype == DType::bf16, "keys are {}", dtype_name(a.kv_dtype));
  PLUMB_CHECK(a.dropout >= 0 && a.dropout < 1 && a.window >= 0 && a.first_query >= 0);
}

}  // namespace

void attention_forward(const Attention& a) {
  check(a);
  const std::vector<KeyList> keys = list_keys(a);
  const bool of_heads = a.queries == 1;
  const int64_t group = a.heads / a.kv_heads;
  const int64_t sets = of_heads ? a.kv_heads : a.heads, set_rows = of_heads ? group : a.queries;
  const int64_t tiles = (set_rows + kTileRows - 1) / kTileRows;
#pragma omp parallel
  {
    Scratch scratch(a);
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
                   const TilePart& part, KeyGradients out, Scratch& s) {
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
                   int64_t kv_head, Scratch& s) {
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
  check(a);
  PLUMB_CHECK(a.kv_dtype == DType::f32 && (a.lse || a.batch * a.queries == 0));
  PLUMB_CHECK(g.dq_row >= a.heads * a.head_dim && g.dk_row >= a.kv_heads * a.head_dim &&
                  g.dv_row >= a.kv_heads * a.value_dim && g.dout_row >= a.heads * a.value_dim,
              "rows are {}, {}, {}, {} apart", g.dq_row, g.dk_row, g.dv_row, g.dout_row);
  const std::vector<KeyList> keys = list_keys(a);
#pragma omp parallel
  {
    Scratch scratch(a);
#pragma omp for schedule(dynamic)
    for (int64_t unit = 0; unit < a.batch * a.kv_heads; ++unit) {
      backward_head(a, g, keys[unit / a.kv_heads], unit / a.kv_heads, unit % a.kv_heads, scratch);
    }
  }
}

}  // namespace plumb
