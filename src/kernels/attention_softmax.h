// The vector arithmetic between the matrix products of an attention tile. Single-threaded: each call is one
// tile of one thread.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "kernels/interval.h"

namespace plumb {

// Rows of scores hold a multiple of this many floats: any vector's width divides it.
constexpr int64_t kScoreAlignment = 64;

// Of one query and head.
struct ScoreRow {
  int64_t query_slot = 0;
  float alibi_slope = 0;
  uint64_t first_pair = 0;  // dropout's index of its pair with slot 0
};

// A tile of scores (rows, keys), scaled but without bias.
struct ScoreTile {
  int64_t row_count = 0, key_count = 0;
  float* scores = nullptr;
  int64_t ld = 0;  // floats; everything up to the next multiple of kScoreAlignment may be written
  const ScoreRow* rows = nullptr;  // (row_count)
  const Interval* seen = nullptr;  // (row_count): the keys visible to each; what the others hold is left open
  bool alibi = false;
  float softcap = 0;               // 0: none
  int64_t first_slot = 0;          // the keys' slots are first_slot, first_slot + 1, ... if `slots` is null
  const int32_t* slots = nullptr;  // (key_count) otherwise
  float dropout = 0;
  RandomKey dropout_key;
};

// One step of the online softmax. In: each row's running maximum and sum. Out: those updated, the visible
// scores replaced by exp(score - maximum) after dropout, and the out rows (row_count, width) scaled to the
// new maximum.
struct SoftmaxState {
  float* max = nullptr;  // (row_count), -inf to start, or a sink's score
  float* sum = nullptr;  // (row_count), 0 to start, or the sink's 1
  float* out = nullptr;
  int64_t out_ld = 0, width = 0;
};
void softmax_tile(const ScoreTile& tile, const SoftmaxState& state);

// Ends it: out /= sum, and lse = max + log(sum); rows that saw no key become 0 and -inf.
void softmax_finish(int64_t rows, const SoftmaxState& state, float* lse);

// Given dp = dout · Vᵀ (as large as the scores), each row's lse and delta = dout · out: the visible scores
// become the weights after dropout, and dp their gradient.
void softmax_gradient_tile(const ScoreTile& tile, float* dp, const float* lse, const float* delta);

// out[r] = sum of x[r, i] * y[r, i].
void row_dots(int64_t rows, int64_t width, const float* x, int64_t x_ld, const float* y, int64_t y_ld,
              float* out);

}  // namespace plumb
