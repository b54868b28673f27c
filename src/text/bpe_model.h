// BPE with the options of tokenizer.json.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/bpe.h"
#include "text/model.h"

namespace plumb {

struct BpeOptions {
  double dropout = 0;
  std::optional<std::string> unknown, prefix,
      suffix;                   // token; before all but a word's first character; behind its last
  bool fuse_unknown = false;    // unknown characters in a row are one token
  bool byte_fallback = false;   // unknown characters become tokens of their bytes
  bool ignore_merges = false;   // a word that the vocabulary has is taken as it is
  bool refuse_unknown = false;  // a byte without a token is an error; plumb's own key, others drop it
};

// A byte that a model with refuse_unknown has no token for.
struct Unspellable {
  size_t offset;  // in the piece
  unsigned char byte;
};

ReadModel make_bpe(Vocabulary vocabulary, std::vector<BpeMerge> merges, BpeOptions options,
                   bool spells_bytes);
ReadModel read_bpe(const JsonAt& json, bool spells_bytes);

}  // namespace plumb
