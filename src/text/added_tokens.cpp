#include "text/added_tokens.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/unicode.h"

namespace plumb {
namespace {

// Where the character that ends before `end` begins.
size_t before(std::string_view text, size_t end) {
  do {
    --end;
  } while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
  return end;
}

char32_t character_at(std::string_view text, size_t place) {
  return next_code_point(text, place);
}

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  return (begin == 0 || !is_word(character_at(text, before(text, begin)))) &&
         (end == text.size() || !is_word(character_at(text, end)));
}

size_t skip_blanks_back(std::string_view text, size_t end) {
  while (end > 0) {
    const size_t begin = before(text, end);
    if (!is_white_space(character_at(text, begin))) break;
    end = begin;
  }
  return end;
}

size_t skip_blanks(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    size_t end = begin;
    if (!is_white_space(next_code_point(text, end))) break;
    begin = end;
  }
  return begin;
}

}  // namespace

void AddedTokens::finish(const Normalizer& normalizer) {
  for (Set& set : sets_) set = {};
  for (size_t i = 0; i < list_.size(); ++i) {
    const AddedToken& token = list_[i];
    if (token.in_model) continue;
    Aligned form{.text = token.content};
    if (token.normalized && normalizer) normalizer(form);
    if (form.text.empty()) continue;
    Set& set = sets_[token.normalized];
    set.any = true;
    set.trie.add(form.text, static_cast<int32_t>(i));
    set.starts[static_cast<unsigned char>(form.text[0])] = true;
  }
}

void AddedTokens::split_piece(const Pieces& pieces, const Piece& piece, const Set& set, bool parse_special,
                              std::vector<Piece>& out) const {
  const std::string_view text = pieces.view(piece);
  const auto take = [&](size_t begin, size_t end, int32_t token) {
    if (begin >= end) return;
    out.push_back(pieces.part(piece.begin + begin, piece.begin + end));
    out.back().token = token;
  };
  size_t done = 0;
  for (size_t i = 0; i < text.size();) {
    if (!set.starts[static_cast<unsigned char>(text[i])]) {
      ++i;
      continue;
    }
    const auto found = set.trie.longest(text.substr(i));
    if (found.length == 0) {
      ++i;
      continue;
    }
    const AddedToken& token = list_[static_cast<size_t>(found.value)];
    size_t begin = i, end = i + found.length;
    i = end;
    if (token.special && !parse_special) continue;
    if (token.single_word && !stands_alone(text, begin, end)) continue;
    if (token.lstrip) begin = std::max(skip_blanks_back(text, begin), done);
    if (token.rstrip) end = skip_blanks(text, end);
    take(done, begin, -1);
    take(begin, end, token.id);
    done = end;
  }
  take(done, text.size(), -1);
}

void AddedTokens::split(Pieces& pieces, bool normalized, bool parse_special) const {
  const Set& set = sets_[normalized];
  if (!set.any) return;
  std::vector<Piece> out;
  out.reserve(pieces.list.size());
  for (const Piece& piece : pieces.list) {
    if (piece.token >= 0) {
      out.push_back(piece);
    } else {
      split_piece(pieces, piece, set, parse_special, out);
    }
  }
  pieces.list = std::move(out);
}

}  // namespace plumb
