#include "data/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/hash.h"
#include "base/random.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr uint64_t kExampleStream = 0x6578616d706c65;  // who asks for random numbers
constexpr uint64_t kMostDraws = 100'000;               // an input of a rare split comes once in 20
constexpr int32_t kPad = 0, kBos = 1, kEos = 2, kFirstSymbol = 3;
constexpr uint64_t kSymbolCount = std::string_view(kSyntheticSymbols).size();

// The first input of the row's sequence of draws that belongs to the split.
std::vector<int32_t> draw_input(const SyntheticRows& what, int64_t row) {
  const auto longest = static_cast<uint64_t>(what.length - 1),
             shortest = static_cast<uint64_t>(what.min_symbols);
  const uint64_t which = static_cast<uint64_t>(what.split) + 3 * what.stream;
  std::vector<int32_t> input;
  for (uint64_t draw = 0; draw < kMostDraws; ++draw) {
    const RandomKey key{what.seed, random_stream(kExampleStream, which, static_cast<uint64_t>(row), draw)};
    input.resize(shortest + random_below(key, 0, longest - shortest + 1));
    for (size_t i = 0; i < input.size(); ++i) {
      input[i] = kFirstSymbol + static_cast<int32_t>(random_below(key, i + 1, kSymbolCount));
    }
    if (synthetic_split(input) == what.split) return input;
  }
  throw Error(ErrorKind::input,
              fmt::format("no input of {} to {} symbols is set aside for evaluation: allow longer ones",
                          shortest, longest));
}

}  // namespace

std::vector<int32_t> synthetic_answer(SyntheticTask task, const std::vector<int32_t>& input) {
  std::vector<int32_t> answer = input;
  if (task == SyntheticTask::reverse) std::reverse(answer.begin(), answer.end());
  if (task == SyntheticTask::sort) std::sort(answer.begin(), answer.end());
  return answer;
}

Split synthetic_split(const std::vector<int32_t>& input) {
  Hash hash;
  for (const int32_t id : input) hash.add(static_cast<uint64_t>(id));
  const uint64_t place = hash.value() % 20;
  return place == 0 ? Split::validation : place == 1 ? Split::test : Split::train;
}

Batch synthetic_rows(const SyntheticRows& what) {
  if (what.min_symbols < 1 || what.length < what.min_symbols + 1) {
    throw Error(ErrorKind::usage,
                fmt::format("inputs of {} symbols and more with an end token do not fit a length of {}",
                            what.min_symbols, what.length));
  }
  Batch batch;
  batch.rows = what.rows;
  batch.length = batch.decoder_length = what.length;
  const size_t count = static_cast<size_t>(what.rows * what.length);
  batch.ids.assign(count, kPad);
  batch.decoder_ids.assign(count, kPad);
  batch.mask.assign(count, 0);
  batch.decoder_mask.assign(count, 0);
  batch.targets.assign(count, kIgnoreTarget);
  for (int64_t row = 0; row < what.rows; ++row) {
    const std::vector<int32_t> input = draw_input(what, what.first_row + row);
    const std::vector<int32_t> answer = synthetic_answer(what.task, input);
    const size_t begin = static_cast<size_t>(row * what.length);
    for (size_t t = 0; t <= input.size(); ++t) {
      const bool last = t == input.size();
      batch.ids[begin + t] = last ? kEos : input[t];
      batch.decoder_ids[begin + t] = t == 0 ? kBos : answer[t - 1];
      batch.targets[begin + t] = last ? kEos : answer[t];
      batch.mask[begin + t] = batch.decoder_mask[begin + t] = 1;
    }
    batch.target_count += static_cast<int64_t>(input.size()) + 1;
  }
  return batch;
}

}  // namespace plumb
