// Learns BPE merges from word counts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "plumb/tokenizer.h"
#include "text/bpe.h"

namespace plumb {

struct WordCount {
  std::string word;  // bytes
  int64_t count;
};

// How often each byte-level pre-token occurs in UTF-8 files or folders, sorted by bytes. Reads in pieces,
// counts in threads.
std::vector<WordCount> count_words(const std::vector<std::string>& paths, const TokenizerTraining& options);

struct BpeLearning {
  std::array<int32_t, 256> byte_ids;  // ids below first_id
  int32_t first_id = 256;             // of the first merge
  int most_merges = 0;
  int64_t min_count = 2;
  std::function<void(uint64_t done, uint64_t total)> progress;  // merges; may be empty
};

// The most frequent pair first; of equals the one with the lower left id, then the lower right id. A merge
// that spells what an earlier one spells gets the same id, so there may be fewer new ids than merges.
std::vector<BpeMerge> learn_merges(const std::vector<WordCount>& words, const BpeLearning& options);

}  // namespace plumb
