#include "data/windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/random.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr uint64_t kWindowStream = 0x77696e646f77, kMaskStream = 0x6d61736b;  // who asks for random numbers

// Devlin et al. 2018, section 3.1.
constexpr double kMasked = 0.15, kShowMask = 0.8, kShowRandom = 0.9;

// Ids [start, start + inputs] of a part as inputs and targets of a row.
void fill_row(Batch& batch, int64_t row, const std::vector<int32_t>& ids) {
  const size_t begin = static_cast<size_t>(row * batch.length), inputs = ids.size() - 1;
  for (size_t t = 0; t < inputs; ++t) {
    batch.ids[begin + t] = ids[t];
    batch.mask[begin + t] = 1;
    batch.targets[begin + t] = ids[t + 1];
  }
  batch.target_count += static_cast<int64_t>(inputs);
}

// A token that is not special, other than by chance the one that is there; few draws in all but odd
// vocabularies.
int32_t random_token(const Tokenizer& tokenizer, RandomKey key, uint64_t index, int32_t fallback) {
  for (uint64_t attempt = 0; attempt < 14; ++attempt) {
    const auto id = static_cast<int32_t>(
        random_below(key, index + attempt, static_cast<uint64_t>(tokenizer.vocab_size())));
    if (!tokenizer.is_special(id)) return id;
  }
  return fallback;
}

}  // namespace

Batch empty_batch(int64_t rows, int64_t length, int32_t pad_id) {
  Batch batch;
  batch.rows = rows;
  batch.length = length;
  const size_t count = static_cast<size_t>(rows * length);
  batch.ids.assign(count, pad_id);
  batch.mask.assign(count, 0);
  batch.targets.assign(count, kIgnoreTarget);
  return batch;
}

Batch train_windows(const TokenFile& file, const TrainWindows& what) {
  const uint64_t count = file.count(Split::train), length = static_cast<uint64_t>(what.length);
  if (count < length + 1) {
    throw Error(
        ErrorKind::input,
        fmt::format(
            "the training text has {} tokens, but one window of length {} needs {}: use more text or a "
            "shorter length",
            count, length, length + 1));
  }
  const RandomKey key{what.seed, random_stream(kWindowStream, static_cast<uint64_t>(what.step))};
  Batch batch = empty_batch(what.rows, what.length, 0);
  std::vector<int32_t> ids(length + 1);
  for (int64_t row = 0; row < what.rows; ++row) {
    const uint64_t start = random_below(key, static_cast<uint64_t>(what.first_row + row), count - length);
    file.read(Split::train, start, length + 1, ids.data());
    fill_row(batch, row, ids);
  }
  return batch;
}

int64_t window_count(const TokenFile& file, Split part, int64_t length) {
  const auto count = static_cast<int64_t>(file.count(part));
  return count < 2 ? 0 : (count - 1 + length - 1) / length;
}

Batch ordered_windows(const TokenFile& file, const OrderedWindows& what) {
  PLUMB_CHECK(what.first + what.rows <= window_count(file, what.part, what.length));
  Batch batch = empty_batch(what.rows, what.length, what.pad_id);
  std::vector<int32_t> ids;
  for (int64_t row = 0; row < what.rows; ++row) {
    const auto start = static_cast<uint64_t>((what.first + row) * what.length);
    ids.resize(std::min(static_cast<uint64_t>(what.length) + 1, file.count(what.part) - start));
    file.read(what.part, start, ids.size(), ids.data());
    fill_row(batch, row, ids);
  }
  return batch;
}

void mask_windows(Batch& batch, const Tokenizer& tokenizer, const MaskRule& rule) {
  const int32_t mask_id = tokenizer.special(TokenRole::mask).value();
  batch.target_count = 0;
  std::fill(batch.targets.begin(), batch.targets.end(), kIgnoreTarget);
  std::vector<int64_t> open, chosen;
  for (int64_t row = 0; row < batch.rows; ++row) {
    const RandomKey key{rule.seed,
                        random_stream(kMaskStream, rule.stream, static_cast<uint64_t>(rule.first_row + row))};
    const auto index = [](int64_t t) {
      return static_cast<uint64_t>(t) * 16 + 1;
    };  // draws of a position; 0 is the row's
    int32_t* ids = batch.ids.data() + row * batch.length;
    open.clear();
    chosen.clear();
    for (int64_t t = 0; t < batch.length; ++t) {
      if (!batch.mask[static_cast<size_t>(row * batch.length + t)] || tokenizer.is_special(ids[t])) continue;
      open.push_back(t);
      if (random_uniform(key, index(t)) < kMasked) chosen.push_back(t);
    }
    if (chosen.empty() && !open.empty()) chosen.push_back(open[random_below(key, 0, open.size())]);
    for (const int64_t t : chosen) {
      batch.targets[static_cast<size_t>(row * batch.length + t)] = ids[t];
      const double show = random_uniform(key, index(t) + 1);
      if (show < kShowMask) {
        ids[t] = mask_id;
      } else if (show < kShowRandom) {
        ids[t] = random_token(tokenizer, key, index(t) + 2, ids[t]);
      }
    }
    batch.target_count += static_cast<int64_t>(chosen.size());
  }
}

}  // namespace plumb
