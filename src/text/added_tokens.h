// Tokens that are found in a text before anything else is done to it, or as soon as it is normalized.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "text/byte_trie.h"
#include "text/normalizer.h"
#include "text/pieces.h"

namespace plumb {

struct AddedToken {
  int32_t id;
  std::string content;
  bool special = false;      // in a user's text only where the caller asks for it; left out of decoded text
  bool normalized = false;   // looked for, in its normalized form, in normalized text
  bool single_word = false;  // not where a letter or digit touches it
  bool lstrip = false;       // takes the blanks before it, and those behind it
  bool rstrip = false;
  bool in_model = false;  // the model itself finds it; not looked for here
};

class AddedTokens {
 public:
  void add(AddedToken token) { list_.push_back(std::move(token)); }
  // Call it after the last add(); normalizer may be empty.
  void finish(const Normalizer& normalizer);

  const std::vector<AddedToken>& list() const { return list_; }
  bool any(bool normalized) const { return sets_[normalized].any; }

  // Makes pieces of the tokens in the pieces of text: leftmost, then longest; what is found and not taken is
  // text, and nothing is looked for inside it. normalized: which of the tokens.
  void split(Pieces& pieces, bool normalized, bool parse_special) const;

 private:
  struct Set {
    bool any = false;
    ByteTrie trie;  // indexes of list_
    std::array<bool, 256> starts{};
  };
  void split_piece(const Pieces& pieces, const Piece& piece, const Set& set, bool parse_special,
                   std::vector<Piece>& out) const;

  std::vector<AddedToken> list_;
  Set sets_[2];
};

}  // namespace plumb
