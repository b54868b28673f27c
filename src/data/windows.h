// Windows of a token file as batches: next-token and masked.
#pragma once

#include "data/token_file.h"
#include "plumb/dataset.h"

namespace plumb {

// Rows of padding alone.
Batch empty_batch(int64_t rows, int64_t length, int32_t pad_id);

// Next-token windows: ids [start, start + T), targets one later, from anywhere in the training part.
struct TrainWindows {
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t first_row = 0;  // of the step: the start is a function of (seed, step, row)
  int64_t rows = 0, length = 0;
};
Batch train_windows(const TokenFile& file, const TrainWindows& what);

// The same in order: window w has inputs [w * T, (w + 1) * T), the last one padded with pad_id.
struct OrderedWindows {
  Split part = Split::validation;
  int64_t first = 0;
  int64_t rows = 0, length = 0;
  int32_t pad_id = 0;
};
int64_t window_count(const TokenFile& file, Split part, int64_t length);
Batch ordered_windows(const TokenFile& file, const OrderedWindows& what);

// Turns next-token windows into masked ones in place: targets become the ids at the chosen positions. Special
// tokens are never chosen; a row that has anything to choose gets at least one target. The choice is a
// function of (seed, stream, row).
struct MaskRule {
  uint64_t seed = 0;
  uint64_t stream = 0;    // which batch this is
  int64_t first_row = 0;  // number of row 0
};
void mask_windows(Batch& batch, const Tokenizer& tokenizer, const MaskRule& rule);

}  // namespace plumb
