#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/attention_tile.h"
#include "kernels/tile_product.h"

namespace plumb {
namespace {

// All gradients that meet in one kv head of one sequence.
struct BackwardHead {
  const Attention& a;
  const AttentionGradient& g;
  const KeyList& keys;
  KeyHead head;
  AttentionScratch& s;
};

template <class Body>
void for_query_tiles(const BackwardHead& b, const Body& body) {
  const int64_t group = b.a.heads / b.a.kv_heads;
  for (int64_t h = b.head.g * group; h < (b.head.g + 1) * group; ++h) {
    for (int64_t t = 0; t < b.a.queries; t += kTileRows) {
      body(QueryTile{.b = b.head.b,
                     .g = b.head.g,
                     .h = h,
                     .t = t,
                     .count = std::min(kTileRows, b.a.queries - t),
                     .of_heads = false});
    }
  }
}

// A tile of queries of one head against the part of a key tile that they see.
struct BackwardStep {
  const QueryTile& q;
  Interval part;
  int64_t offset;  // of the part in its key tile
};

// The step's probabilities (after dropout) into s.scores, and the gradients of its scores into s.dp.
void score_gradients(const BackwardHead& b, const BackwardStep& step) {
  const Attention& a = b.a;
  const AttentionScratch& s = b.s;
  const QueryTile& q = step.q;
  const ScoreTile scores = describe_rows(a, b.keys, q, step.part, b.s);
  copy_rows(q.count, a.head_dim, rows_of(a, q, a.q, a.q_row, a.head_dim), s.query);
  copy_rows(q.count, a.value_dim, rows_of(a, q, b.g.dout, b.g.dout_row, a.value_dim), s.dout);
  tile_product({.m = q.count,
                .n = step.part.size(),
                .k = a.head_dim,
                .a = s.query.data,
                .a_row = s.query.ld,
                .a_col = 1,
                .b = s.transposed.k + step.offset,
                .ldb = s.transposed.k_ld,
                .c = s.scores.data,
                .ldc = s.scores.ld,
                .alpha = a.scale,
                .columns = s.seen});
  tile_product({.m = q.count,
                .n = step.part.size(),
                .k = a.value_dim,
                .a = s.dout.data,
                .a_row = s.dout.ld,
                .a_col = 1,
                .b = s.transposed.v + step.offset,
                .ldb = s.transposed.v_ld,
                .c = s.dp.data,
                .ldc = s.dp.ld,
                .columns = s.seen});
  const Rows out = rows_of(a, q, a.out, a.out_row, a.value_dim);
  row_dots(q.count, a.value_dim, s.dout.data, s.dout.ld, out.data, out.ld, s.sum);
  softmax_gradient_tile(scores, s.dp.data, a.lse + (q.b * a.heads + q.h) * a.queries + q.t, s.sum);
}

// The rows that see each of the keys, given the keys that each row sees: both ends of those grow with the
// row.
void rows_that_see(const Interval* seen, int64_t rows, int64_t keys, Interval* out) {
  Interval see;
  for (int64_t j = 0; j < keys; ++j) {
    while (see.begin < rows && seen[see.begin].end <= j) ++see.begin;
    while (see.end < rows && seen[see.end].begin <= j) ++see.end;
    out[j] = see;
  }
}

// Into s.dkv.
void key_gradients(const BackwardHead& b, const BackwardStep& step) {
  const Attention& a = b.a;
  const AttentionScratch& s = b.s;
  Interval rows[kTileKeys];
  rows_that_see(s.seen, step.q.count, step.part.size(), rows);
  tile_product({.m = step.part.size(),
                .n = a.value_dim,
                .k = step.q.count,
                .a = s.scores.data,
                .a_row = 1,
                .a_col = s.scores.ld,
                .b = s.dout.data,
                .ldb = s.dout.ld,
                .c = s.dkv.v + step.offset * s.dkv.v_ld,
                .ldc = s.dkv.v_ld,
                .add = true,
                .terms = rows});
  tile_product({.m = step.part.size(),
                .n = a.head_dim,
                .k = step.q.count,
                .a = s.dp.data,
                .a_row = 1,
                .a_col = s.dp.ld,
                .b = s.query.data,
                .ldb = s.query.ld,
                .c = s.dkv.k + step.offset * s.dkv.k_ld,
                .ldc = s.dkv.k_ld,
                .alpha = a.scale,
                .add = true,
                .terms = rows});
}

void prefetch_next(const BackwardHead& b, const QueryTile& q) {
  const Attention& a = b.a;
  QueryTile next = q;
  next.t += q.count;
  const int64_t rows = std::min(kTileRows, a.queries - next.t);
  prefetch_rows(rows, a.head_dim, rows_of(a, next, a.q, a.q_row, a.head_dim));
  prefetch_rows(rows, a.value_dim, rows_of(a, next, b.g.dout, b.g.dout_row, a.value_dim));
  prefetch_rows(rows, a.value_dim, rows_of(a, next, a.out, a.out_row, a.value_dim));
}

void backward_tile(const BackwardHead& b, const QueryTile& q, Interval tile) {
  const Attention& a = b.a;
  const AttentionScratch& s = b.s;
  const Interval seen = seen_by_any(a, b.keys, q), part = intersection(seen, tile);
  if (part.empty()) return;
  const BackwardStep step{q, part, part.begin - tile.begin};
  prefetch_next(b, q);
  score_gradients(b, step);
  const Rows dq = rows_of(a, q, b.g.dq, b.g.dq_row, a.head_dim);
  tile_product({.m = q.count,
                .n = a.head_dim,
                .k = part.size(),
                .a = s.dp.data,
                .a_row = s.dp.ld,
                .a_col = 1,
                .b = s.kv.k + step.offset * s.kv.k_ld,
                .ldb = s.kv.k_ld,
                .c = dq.data,
                .ldc = dq.ld,
                .alpha = a.scale,
                .add = b.g.add_dq || part.begin > seen.begin,
                .terms = s.seen});
  key_gradients(b, step);
}

// Where the gradients of keys go, in the order of their slots.
class KeyRows {
 public:
  KeyRows(Rows rows, int64_t width, bool add) : rows_(rows), width_(width), add_(add) {}

  // Those of a tile of keys.
  void put(const KeyList& keys, Interval tile, Rows from) {
    for (int64_t j = 0; j < tile.size(); ++j) {
      const int64_t slot = keys.slot(tile.begin + j);
      skip_to(slot);
      const float* __restrict x = from.row(j);
      float* __restrict out = rows_.row(slot);
      if (add_) {
        for (int64_t d = 0; d < width_; ++d) out[d] += x[d];
      } else {
        std::copy_n(x, width_, out);
      }
      next_ = slot + 1;
    }
  }

  // Slots before this one that had no key have no gradient.
  void skip_to(int64_t slot) {
    if (!add_ && next_ < slot) clear_rows(slot - next_, width_, {rows_.row(next_), rows_.ld});
    next_ = slot;
  }

 private:
  Rows rows_;
  int64_t width_;
  bool add_;
  int64_t next_ = 0;
};

// A tile of keys against all queries.
void backward_keys(const BackwardHead& b, Interval tile, KeyRows& dk, KeyRows& dv) {
  const Attention& a = b.a;
  const AttentionScratch& s = b.s;
  copy_k(a, b.keys, b.head, tile, s.kv);
  copy_v(a, b.keys, b.head, tile, s.kv);
  tile_transpose({tile.size(), a.head_dim, s.kv.k, s.kv.k_ld, s.transposed.k, s.transposed.k_ld});
  tile_transpose({tile.size(), a.value_dim, s.kv.v, s.kv.v_ld, s.transposed.v, s.transposed.v_ld});
  clear_rows(tile.size(), a.head_dim, {s.dkv.k, s.dkv.k_ld});
  clear_rows(tile.size(), a.value_dim, {s.dkv.v, s.dkv.v_ld});
  for_query_tiles(b, [&](const QueryTile& q) { backward_tile(b, q, tile); });
  dk.put(b.keys, tile, {s.dkv.k, s.dkv.k_ld});
  dv.put(b.keys, tile, {s.dkv.v, s.dkv.v_ld});
}

void backward_head(const BackwardHead& b) {
  const Attention& a = b.a;
  const AttentionGradient& g = b.g;
  const int64_t row = b.head.b * a.kv_rows;
  KeyRows dk({g.dk + row * g.dk_row + b.head.g * a.head_dim, g.dk_row}, a.head_dim, g.add_dk);
  KeyRows dv({g.dv + row * g.dv_row + b.head.g * a.value_dim, g.dv_row}, a.value_dim, g.add_dv);
  Interval seen{b.keys.count, 0};
  for_query_tiles(b, [&](const QueryTile& q) {
    const Interval of_tile = seen_by_any(a, b.keys, q);
    seen = {std::min(seen.begin, of_tile.begin), std::max(seen.end, of_tile.end)};
    if (of_tile.empty() && !g.add_dq) {
      clear_rows(q.count, a.head_dim, rows_of(a, q, g.dq, g.dq_row, a.head_dim));
    }
  });
  for (Interval tile{0, seen.begin}; tile.end < seen.end;) {
    tile = key_tile(tile.end, seen.end);
    backward_keys(b, tile, dk, dv);
  }
  dk.skip_to(a.keys);
  dv.skip_to(a.keys);
}

// A sink of weight p gives nothing, so that its score's gradient is -p (dout . out) of each query.
void sink_gradients(const Attention& a, const AttentionGradient& g) {
#pragma omp parallel for schedule(static)
  for (int64_t h = 0; h < a.heads; ++h) {
    double sum = 0;
    for (int64_t row = 0; row < a.batch * a.queries; ++row) {
      const int64_t b = row / a.queries, t = row % a.queries;
      const float* out = a.out + row * a.out_row + h * a.value_dim;
      const float* dout = g.dout + row * g.dout_row + h * a.value_dim;
      float dot = 0;
      for (int64_t e = 0; e < a.value_dim; ++e) dot += dout[e] * out[e];
      sum -= std::exp(double{a.sinks[h]} - a.lse[(b * a.heads + h) * a.queries + t]) * dot;
    }
    g.dsinks[h] = static_cast<float>(sum) + (g.add_dsinks ? g.dsinks[h] : 0.0f);
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
      const int64_t b = unit / a.kv_heads;
      backward_head({.a = a, .g = g, .keys = keys[b], .head = {b, unit % a.kv_heads}, .s = scratch});
    }
  }
  if (g.dsinks) sink_gradients(a, g);
}

}  // namespace plumb
