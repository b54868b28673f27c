// How often each word (what a pre-tokenizer cuts a text into) occurs in files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/tokenizer_impl.h"

namespace plumb {

struct WordCount {
  std::string word;  // bytes
  int64_t count;
};

struct WordCounting {
  uint64_t memory = 0;  // bytes that the words may take
  bool show_progress = false;
};

// Of UTF-8 files or folders, sorted by bytes; whatever the number of threads. The files are read in pieces
// and counted in threads. What goes beyond `memory` meanwhile is kept in a temporary file; the counts stay
// exact. If all words together are more than that, the rarest are left out, which is logged.
// Error(interrupted) when the user asks to stop.
std::vector<WordCount> count_words(const std::vector<std::string>& paths, const Tokenizer::Impl& tokenizer,
                                   const WordCounting& options);

}  // namespace plumb
