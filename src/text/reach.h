// What a tokenizer can and cannot produce.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plumb/tokenizer.h"

namespace plumb {

struct Unreachable {
  int32_t id;
  std::string why;  // "the model makes "ab", "c" of it"
};

// The tokens that no text becomes. Added tokens, the unknown token and byte tokens of a fallback are reached
// in other ways, and left out. A token counts as reached if it comes out of its own text: alone for a merge
// or a unigram piece, which is exact; for pieces that need company, beside each of some single characters.
// And if some text with its own in it leaves the normalizer and the pre-tokenizer with its characters still
// in one piece.
std::vector<Unreachable> unreachable_tokens(const Tokenizer& tokenizer);

// Ids that are spelled alike: the one that is never produced, and the other.
std::vector<std::pair<int32_t, int32_t>> repeated_tokens(const Tokenizer& tokenizer);

std::optional<int32_t> unknown_token(const Tokenizer& tokenizer);  // the model's

// Nothing before or in the model can lose a byte.
bool is_lossless(const Tokenizer& tokenizer);

}  // namespace plumb
