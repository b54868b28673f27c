// Learning a tokenizer from text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plumb/tokenizer.h"

namespace plumb {

enum class TokenizerKind { bpe, unigram, wordpiece };

// What is left empty goes by the kind (docs/tokenizers.md).
struct TokenizerTraining {
  TokenizerKind kind = TokenizerKind::bpe;
  int64_t vocab_size = 4096;  // upper bound, specials and alphabet included; small texts give fewer
  int64_t min_count = 2;      // bpe, wordpiece: a pair that is seen less often is not merged
  std::vector<std::string> special_tokens;  // get the first ids
  std::string normalizer, pre_tokenizer;    // a name of training_presets(), or the part as JSON
  int64_t alphabet_limit = 0;               // most single characters, the rarest are left out; 0: all
  std::string initial_alphabet;             // characters that are in it however rare
  int64_t longest = 0;                      // characters of a piece; 0: 16 for unigram, any for the others
  std::string prefix, suffix;  // bpe, wordpiece: before what continues a word; bpe: behind what ends one
  bool byte_fallback = false;  // tokens for the 256 bytes, which unknown characters become
  int64_t memory = int64_t{2} << 30;  // bytes for the different words while they are counted
  bool show_progress = false;         // lines on stderr
};

struct TrainingPreset {
  const char *name, *what;
  const char* json;  // the part of tokenizer.json; "" for none
};
const std::vector<TrainingPreset>& normalizer_presets();
const std::vector<TrainingPreset>& pre_tokenizer_presets();

// From UTF-8 files, or folders of them, read in pieces. Equal files give equal tokenizers, whatever the
// number of threads. With the defaults: byte-level BPE with GPT-2's pattern; ids <|endoftext|> (bos and eos)
// 0,
// <|pad|> 1, <|mask|> 2, then the 256 bytes, then the merges. Error(usage) for options that do not go
// together, Error(interrupted) when the user asks to stop.
Tokenizer train_tokenizer(const std::vector<std::string>& paths, const TokenizerTraining& options = {});

}  // namespace plumb
