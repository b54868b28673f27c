// The parts of a tokenizer whose file does not spell them out, as tokenizer.json would: so they are read, run
// and written by the same code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/bpe.h"
#include "text/bpe_model.h"
#include "text/tokenizer_impl.h"

namespace plumb {

void set_part(Tokenizer::Impl& impl, const char* name, const OrderedJson& value);

struct ByteLevelParts {
  std::vector<std::string> patterns;  // each cuts the pieces of the one before; empty for GPT-2's
  bool add_prefix_space = false;
};
// Pre-tokenizer and decoder.
void set_byte_level(Tokenizer::Impl& impl, const ByteLevelParts& parts);

// The model of byte-level BPE or any other; the pre-tokenizer has to be set before.
void set_bpe(Tokenizer::Impl& impl, Vocabulary vocabulary, std::vector<BpeMerge> merges,
             const BpeOptions& options);

// Post-processor: `bos` before a text and `eos` behind, each where it is given. The model has to be set
// before.
void set_ends(Tokenizer::Impl& impl, std::optional<int32_t> bos, std::optional<int32_t> eos);

// BERT's: cls, text, sep, second text, sep; the second of type 1. And its decoder.
void set_bert_ends(Tokenizer::Impl& impl, int32_t cls, int32_t sep);

inline std::optional<int32_t>& role_of(Tokenizer::Impl& impl, TokenRole role) {
  return impl.roles[static_cast<size_t>(role)];
}

// "left right" to the merge of two tokens. `where` begins the Error(file) that says what is wrong with it.
BpeMerge read_merge(std::string_view text, const Vocabulary& vocabulary, const std::string& where);

}  // namespace plumb
