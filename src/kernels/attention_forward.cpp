#include <omp.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/attention_tile.h"
#include "kernels/gemv.h"
#include "kernels/tile_product.h"

namespace plumb {
namespace {

// A tile of queries on its way through the keys.
class ForwardTile {
 public:
  // max and sum: (q.count), the state of the online softmax.
  ForwardTile(const Attention& a, const KeyList& keys, const QueryTile& q, float* max, float* sum)
      : a_(a),
        keys_(keys),
        q_(q),
        seen_(seen_by_any(a, keys, q)),
        query_(rows_of(a, q, a.q, a.q_row, a.head_dim)),
        out_(rows_of(a, q, a.out, a.out_row, a.value_dim)),
        state_{.max = max, .sum = sum, .out = out_.data, .out_ld = out_.ld, .width = a.value_dim} {
    if (seen_.empty() || a.sinks) clear_rows(q.count, a.value_dim, out_);
    for (int64_t r = 0; r < q.count; ++r) {
      max[r] = a.sinks ? a.sinks[q.head(r)] : -std::numeric_limits<float>::infinity();
      sum[r] = a.sinks ? 1.0f : 0.0f;
    }
  }

  Interval seen() const { return seen_; }

  // The keys of `tile`: s.transposed has their rows of K, s.kv those of V.
  void step(Interval tile, AttentionScratch& s) const {
    const Interval part = intersection(seen_, tile);
    if (part.empty()) return;
    const int64_t offset = part.begin - tile.begin;
    const ScoreTile scores = describe_rows(a_, keys_, q_, part, s);
    copy_rows(q_.count, a_.head_dim, query_, s.query);
    tile_product({.m = q_.count,
                  .n = part.size(),
                  .k = a_.head_dim,
                  .a = s.query.data,
                  .a_row = s.query.ld,
                  .a_col = 1,
                  .b = s.transposed.k + offset,
                  .ldb = s.transposed.k_ld,
                  .c = s.scores.data,
                  .ldc = s.scores.ld,
                  .alpha = a_.scale,
                  .columns = s.seen});
    softmax_tile(scores, state_);
    tile_product({.m = q_.count,
                  .n = a_.value_dim,
                  .k = part.size(),
                  .a = s.scores.data,
                  .a_row = s.scores.ld,
                  .a_col = 1,
                  .b = s.kv.v + offset * s.kv.v_ld,
                  .ldb = s.kv.v_ld,
                  .c = out_.data,
                  .ldc = out_.ld,
                  .add = part.begin > seen_.begin,
                  .terms = s.seen});
  }

  void prefetch() const { prefetch_rows(q_.count, a_.head_dim, query_); }

  // One query: its heads' rows go through K and V as they are stored, which costs one pass over memory.
  void decode_step(Interval part, AttentionScratch& s) const {
    for (int64_t r = 0; r < q_.count; ++r) {
      for (int64_t d = 0; d < a_.head_dim; ++d) s.query.row(r)[d] = a_.scale * query_.row(r)[d];
    }
    const StoredTile kv = stored_keys(a_, keys_, {q_.b, q_.g}, part, s.kv);
    const ScoreTile scores = describe_rows(a_, keys_, q_, part, s);
    gemv_serial({.m = q_.count,
                 .n = part.size(),
                 .k = a_.head_dim,
                 .a = {s.query.data, DType::f32, s.query.ld},
                 .b = {kv.k, kv.dtype, kv.k_ld, true},
                 .c = s.scores.data,
                 .ldc = s.scores.ld});
    softmax_tile(scores, state_);
    gemv_serial({.m = q_.count,
                 .n = a_.value_dim,
                 .k = part.size(),
                 .a = {s.scores.data, DType::f32, s.scores.ld},
                 .b = {kv.v, kv.dtype, kv.v_ld},
                 .c = out_.data,
                 .ldc = out_.ld,
                 .add = part.begin > seen_.begin});
  }

  void finish() const {
    float lse[kTileRows];
    softmax_finish(q_.count, state_, lse);
    if (!a_.lse) return;
    for (int64_t r = 0; r < q_.count; ++r) {
      a_.lse[(q_.b * a_.heads + q_.head(r)) * a_.queries + q_.query(r)] = lse[r];
    }
  }

 private:
  const Attention& a_;
  const KeyList& keys_;
  QueryTile q_;
  Interval seen_;
  Rows query_, out_;
  SoftmaxState state_;
};

// Tiles of queries that read the same kv head: a tile of its keys is transposed once for all of them.
void forward_run(const Attention& a, const KeyList& keys, const std::vector<QueryTile>& run,
                 AttentionScratch& s) {
  std::vector<ForwardTile> tiles;
  Interval seen{keys.count, 0};
  for (const QueryTile& q : run) {
    const int64_t row = static_cast<int64_t>(tiles.size()) * kTileRows;
    tiles.emplace_back(a, keys, q, s.max + row, s.sum + row);
    seen = {std::min(seen.begin, tiles.back().seen().begin), std::max(seen.end, tiles.back().seen().end)};
  }
  for (Interval tile{0, seen.begin}; tile.end < seen.end;) {
    tile = key_tile(tile.end, seen.end);
    const KeyHead head{run[0].b, run[0].g};
    const F32Rows k = f32_k(a, keys, head, tile, s.kv);
    tile_transpose({.rows = tile.size(),
                    .width = a.head_dim,
                    .x = k.data,
                    .ld = k.ld,
                    .out = s.transposed.k,
                    .out_ld = s.transposed.k_ld});
    copy_v(a, keys, head, tile, s.kv);
    for (size_t i = 0; i < tiles.size(); ++i) {
      if (i + 1 < tiles.size()) tiles[i + 1].prefetch();
      tiles[i].step(tile, s);
    }
  }
  for (const ForwardTile& t : tiles) t.finish();
}

void forward(const Attention& a, const std::vector<KeyList>& keys) {
  const int64_t group = a.heads / a.kv_heads, head_tiles = (a.queries + kTileRows - 1) / kTileRows;
  const int64_t set_tiles = group * head_tiles, sets = a.batch * a.kv_heads;
  // Long runs transpose less, short ones occupy the threads evenly.
  const int64_t run_tiles = std::clamp<int64_t>(sets * set_tiles / (4 * omp_get_max_threads()), 1, kRunTiles);
  const int64_t runs = (set_tiles + run_tiles - 1) / run_tiles;
#pragma omp parallel
  {
    AttentionScratch scratch(a);
    std::vector<QueryTile> run;
    run.reserve(run_tiles);
    // The last tiles see the most keys, so they go first.
#pragma omp for schedule(dynamic)
    for (int64_t unit = 0; unit < runs * sets; ++unit) {
      const int64_t set = unit % sets, b = set / a.kv_heads, g = set % a.kv_heads,
                    first = unit / sets * run_tiles;
      run.clear();
      for (int64_t i = first; i < std::min(set_tiles, first + run_tiles); ++i) {
        const int64_t t = (head_tiles - 1 - i / group) * kTileRows;
        run.push_back({.b = b,
                       .g = g,
                       .h = g * group + i % group,
                       .t = t,
                       .count = std::min(kTileRows, a.queries - t),
                       .of_heads = false});
      }
      forward_run(a, keys[b], run, scratch);
    }
  }
}

void decode(const Attention& a, const std::vector<KeyList>& keys) {
  const int64_t group = a.heads / a.kv_heads, tiles = (group + kTileRows - 1) / kTileRows;
#pragma omp parallel
  {
    AttentionScratch s(a);
#pragma omp for schedule(dynamic)
    for (int64_t unit = 0; unit < a.batch * a.kv_heads * tiles; ++unit) {
      const int64_t b = unit / tiles / a.kv_heads, g = unit / tiles % a.kv_heads;
      const int64_t first = unit % tiles * kTileRows;
      const QueryTile q{.b = b,
                        .g = g,
                        .h = g * group + first,
                        .t = 0,
                        .count = std::min(kTileRows, group - first),
                        .of_heads = true};
      const ForwardTile tile(a, keys[b], q, s.max, s.sum);
      for (Interval part{0, tile.seen().begin}; part.end < tile.seen().end;) {
        part = key_tile(part.end, tile.seen().end);
        tile.decode_step(part, s);
      }
      tile.finish();
    }
  }
}

}  // namespace

void attention_forward(const Attention& a) {
  check_attention(a);
  const std::vector<KeyList> keys = list_keys(a);
  a.queries == 1 ? decode(a, keys) : forward(a, keys);
}

}  // namespace plumb
