// SentencePiece (Kudo, Richardson 2018): a text is normalized as a whole, blanks become U+2581, and a unigram
// model or BPE over characters cuts it into pieces. As version 0.2.3 of that package does it.
//
// tokenizer.json can say most of this in its own components, and a written file has them for other programs.
// What it cannot say stands beside them under the key "sentencepiece", which others ignore and which is what
// counts here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "text/decoder.h"
#include "text/json_at.h"
#include "text/model.h"
#include "text/normalizer.h"
#include "text/tokenizer_impl.h"

namespace plumb {

enum class PieceType : uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

struct SentencePiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::normal;
};

struct SentencePieces {
  enum class Kind { unigram, bpe, characters };
  Kind kind = Kind::unigram;
  std::vector<SentencePiece> list;  // by id
  bool byte_fallback = false;       // unknown characters become their bytes' pieces
  bool wide_scores = false;         // added up in f64, where the package does it in f32
};

struct SentencePieceRules {
  std::string charsmap;  // of text/charsmap.h; empty for none
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  bool whitespace_as_suffix = false;
  std::string unknown_surface = " \u2047 ";  // what the unknown piece decodes to
};

// Error(file), beginning with `name`, where pieces are empty, no UTF-8, given twice, of a score that is no
// number, or lack the unknown piece or bytes that they need.
std::unique_ptr<TokenModel> make_sentencepiece(const SentencePieces& pieces, const std::string& name);

// The same of a written file: what model.sentencepiece adds to the vocabulary.
std::unique_ptr<TokenModel> read_sentencepiece_model(const JsonAt& json);
// Of a normalizer or decoder that has the key "sentencepiece".
Normalizer read_sentencepiece_normalizer(const JsonAt& json);
Decoder read_sentencepiece_decoder(const JsonAt& json);

// Fills normalizer, decoder, model and the added tokens (those of type control, special) of an empty Impl.
void set_sentencepiece(const SentencePieces& pieces, const SentencePieceRules& rules, const std::string& name,
                       Tokenizer::Impl& impl);

}  // namespace plumb
