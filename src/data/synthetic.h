// Sequence-to-sequence tasks with a known answer.
#pragma once

#include <string>
#include <vector>

#include "plumb/dataset.h"

namespace plumb {

enum class SyntheticTask { copy, reverse, sort };
inline constexpr const char* kSyntheticSymbols = "0123456789abcdefghijklmnopqrstuvwxyz";

// Ids as of Tokenizer::characters(kSyntheticSymbols): pad 0, bos 1, eos 2, symbols from 3.
std::vector<int32_t> synthetic_answer(SyntheticTask task, const std::vector<int32_t>& input);

// Which split an input belongs to: a function of the input alone; 1 in 20 each for validation and test.
Split synthetic_split(const std::vector<int32_t>& input);

struct SyntheticRows {
  SyntheticTask task = SyntheticTask::reverse;
  Split split = Split::train;
  uint64_t seed = 0;
  uint64_t stream = 0;    // the step, in training
  int64_t first_row = 0;  // examples are a function of (seed, split, stream, row)
  int64_t rows = 0;
  int64_t length = 0;  // T = U; inputs have min_symbols to length - 1 symbols
  int min_symbols = 3;
};
Batch synthetic_rows(const SyntheticRows& what);

}  // namespace plumb
