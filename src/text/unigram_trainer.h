// Learns the pieces of a unigram language model (Kudo 2018, "Subword regularization", arXiv 1804.10959,
// section 3.2) from word counts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "text/word_counts.h"

namespace plumb {

struct UnigramPiece {
  std::string text;
  double score;  // natural logarithm of its probability
};

struct UnigramLearning {
  size_t pieces = 0;                            // wanted, the required ones included
  std::vector<std::string> required;            // characters that are kept however rare
  size_t longest = 16;                          // characters of a piece
  size_t seeds = 1'000'000;                     // pieces to begin with
  std::function<void(size_t pieces)> progress;  // may be empty, may throw
};

// Frequent substrings of the words, from a suffix array, are the seeds; EM (two steps, then the quarter of
// the pieces that the likelihood misses least goes) until there are 10 % more than wanted; of these the most
// probable. By falling score, of equals by text. Words are valid UTF-8; characters that are not required are
// seen as a word's end.
std::vector<UnigramPiece> learn_unigram(const std::vector<WordCount>& words, const UnigramLearning& options);

}  // namespace plumb
