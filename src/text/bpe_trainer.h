// Learns BPE merges from word counts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "text/bpe.h"

namespace plumb {

// Words as the symbols that they begin with.
struct SymbolWords {
  struct Word {
    size_t begin;  // in symbols
    uint32_t length;
    int64_t count;
  };
  std::vector<int32_t> symbols;
  std::vector<Word> words;

  void add(const std::vector<int32_t>& word, int64_t count);
};

struct BpeLearning {
  int32_t specials = 0;    // the ids below this are no text's: no merge spells one
  size_t most_tokens = 0;  // those that there are already included
  int64_t min_count = 2;
  size_t prefix = 0;   // bytes that the second half of a merge loses: of "##" in "##b"
  size_t longest = 0;  // no merge of more symbols than this; 0: any
  std::function<void(size_t tokens)> progress;  // may be empty, may throw
};

// The most frequent pair first; of equals the one with the lower left id, then the lower right id. A merge
// that spells what an earlier one spells gets the same id, so there may be fewer new ids than merges.
// tokens: by id; those of the merges are added. May throw what `progress` does.
std::vector<BpeMerge> learn_merges(SymbolWords words, std::vector<std::string>& tokens,
                                   const BpeLearning& options);

}  // namespace plumb
