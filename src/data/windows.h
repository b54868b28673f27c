// Windows of a token file as batches: next-token and masked.
#pragma once

#include "data/token_file.h"
#include "plumb/dataset.h"

namespace plumb {

// Next-token windows: ids [start, start + T), targets one later.
Batch train_windows(const TokenFile& file, uint64_t seed, int64_t step, int64_t first_row, int64_t rows,
                    int64_t length);
int64_t valid_window_count(const TokenFile& file, int64_t length);
Batch valid_windows(const TokenFile& file, int32_t pad_id, int64_t first_window, int64_t rows,
                    int64_t length);

struct MaskRule {
  uint64_t seed = 0;
  uint64_t stream = 0;    // which batch this is
  int64_t first_row = 0;  // number of row 0: the choice is a function of (seed, stream, row)
  const Tokenizer* tokenizer = nullptr;
};
// Turns next-token windows into masked ones in place: targets become the ids at the chosen positions. Special
// tokens are never chosen; a row that has anything to choose has at least one target.
void mask_windows(Batch& batch, const MaskRule& rule);

}  // namespace plumb
