// A text that is being cut into pieces, each of which a model reads for itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/aligned.h"

namespace plumb {

struct Piece {
  uint32_t begin, end;  // bytes of the text
  uint32_t origin;      // where it began in the caller's text; 0 where places are not tracked
  int32_t token;        // an added token that it is; -1 for text
};

struct Pieces {
  Aligned text;
  std::vector<Piece> list;  // in order; they need not cover the text

  std::string_view view(const Piece& piece) const {
    return std::string_view(text.text).substr(piece.begin, piece.end - piece.begin);
  }
  // The part [begin, end) of the text as a piece.
  Piece part(size_t begin, size_t end) const {
    const uint32_t origin = text.tracked && begin < end ? text.places[begin].begin : text.origin;
    return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end), origin, -1};
  }

  // Replaces each piece of text by parts of it: calls cut(view, take) with take(begin, end) counted from the
  // piece's start. Empty parts are dropped.
  template <typename Cut>
  void split(const Cut& cut) {
    scratch_.clear();
    for (const Piece& piece : list) {
      if (piece.token >= 0) {
        scratch_.push_back(piece);
        continue;
      }
      cut(view(piece), [&](size_t begin, size_t end) {
        if (begin < end) scratch_.push_back(part(piece.begin + begin, piece.begin + end));
      });
    }
    list.swap(scratch_);
  }

  // Writes each piece of text anew: calls write(piece, out), which has to take all that is to stay of it.
  // What is written for a piece begins where out stood and is the new piece.
  template <typename Write>
  void rewrite(const Write& write) {
    Rewrite out(text);
    for (Piece& piece : list) {
      const size_t begin = out.written();
      out.drop(piece.begin);
      if (piece.token >= 0) {
        out.keep(piece.end);
      } else {
        write(piece, out);
      }
      piece.begin = static_cast<uint32_t>(begin);
      piece.end = static_cast<uint32_t>(out.written());
    }
    out.finish(text);
  }

 private:
  std::vector<Piece> scratch_;
};

}  // namespace plumb
