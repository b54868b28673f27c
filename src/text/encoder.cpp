// A text's way through the parts of a tokenizer.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/utf8.h"
#include "plumb/error.h"
#include "text/bpe_model.h"
#include "text/tokenizer_impl.h"

namespace plumb {
namespace {

using Impl = Tokenizer::Impl;

void check_text(std::string_view text) {
  if (const size_t fault = utf8_fault(text); fault != kUtf8Valid) {
    throw Error(
        ErrorKind::input,
        fmt::format("the text is not UTF-8: byte 0x{:02x} at offset {} does not belong to a character",
                    static_cast<unsigned char>(text[fault]), fault));
  }
  if (text.size() >= std::numeric_limits<uint32_t>::max() / 4)
    throw Error(ErrorKind::input,
                fmt::format("a text of {} bytes is too long to encode at once", text.size()));
}

std::vector<TextSpan> places_of(std::string_view text) {
  std::vector<TextSpan> places;
  places.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const auto begin = static_cast<uint32_t>(i);
    next_code_point(text, i);
    places.insert(places.end(), i - begin, {begin, static_cast<uint32_t>(i)});
  }
  return places;
}

// Each piece of text for itself, which is what a normalizer that looks at its beginning or end depends on.
void normalize_pieces(Pieces& pieces, const Normalizer& normalizer) {
  if (pieces.list.size() == 1 && pieces.list[0].token < 0 && pieces.list[0].begin == 0 &&
      pieces.list[0].end == pieces.text.text.size()) {
    normalizer(pieces.text);
    pieces.list[0] = pieces.part(0, pieces.text.text.size());
    return;
  }
  Pieces whole;
  whole.text.tracked = pieces.text.tracked;
  whole.list.reserve(pieces.list.size());
  for (const Piece& piece : pieces.list) {
    Aligned part{
        .text = std::string(pieces.view(piece)), .tracked = pieces.text.tracked, .origin = piece.origin};
    if (part.tracked) {
      const auto first = pieces.text.places.begin();
      part.places.assign(first + static_cast<ptrdiff_t>(piece.begin),
                         first + static_cast<ptrdiff_t>(piece.end));
    }
    if (piece.token < 0) normalizer(part);
    const size_t begin = whole.text.text.size();
    whole.text.text += part.text;
    whole.text.places.insert(whole.text.places.end(), part.places.begin(), part.places.end());
    whole.list.push_back(whole.part(begin, whole.text.text.size()));
    whole.list.back().token = piece.token;
  }
  pieces = std::move(whole);
}

void drop_empty(std::vector<Piece>& list) {
  std::erase_if(list, [](const Piece& piece) { return piece.begin == piece.end; });
}

// From bytes of a text to its code points. A place beyond the text is left as it is.
class CodePoints {
 public:
  explicit CodePoints(std::string_view text) {
    before_.reserve(text.size());
    for (size_t i = 0; i < text.size();) {
      const size_t begin = i;
      next_code_point(text, i);
      before_.insert(before_.end(), i - begin, count_++);
    }
  }
  TextSpan convert(TextSpan bytes) const {
    if (bytes.begin >= before_.size()) return bytes;
    const uint32_t begin = before_[bytes.begin];
    if (bytes.end < before_.size()) return {begin, before_[bytes.end]};
    return {begin, (bytes.end - 1 < before_.size() ? before_[bytes.end - 1] : begin + 1) + 1};
  }

 private:
  std::vector<uint32_t> before_;
  uint32_t count_ = 0;
};

// From code points back to bytes.
void spans_to_bytes(Encoding& encoding, const std::vector<std::vector<uint32_t>>& starts) {
  for (size_t i = 0; i < encoding.offsets.size(); ++i) {
    if (encoding.sequence[i] < 0) continue;
    const auto& of_text = starts[static_cast<size_t>(encoding.sequence[i])];
    TextSpan& span = encoding.offsets[i];
    const auto byte = [&](uint32_t point) { return of_text[std::min<size_t>(point, of_text.size() - 1)]; };
    span = {byte(span.begin), byte(span.end)};
  }
  for (Encoding& window : encoding.overflow) spans_to_bytes(window, starts);
}

std::vector<uint32_t> starts_of(std::string_view text) {
  std::vector<uint32_t> starts;
  starts.reserve(text.size() + 1);
  for (size_t i = 0; i < text.size(); next_code_point(text, i)) starts.push_back(static_cast<uint32_t>(i));
  starts.push_back(static_cast<uint32_t>(text.size()));
  return starts;
}

[[noreturn]] void refuse(const Unspellable& fault, const Piece& piece, size_t vocabulary) {
  throw Error(
      ErrorKind::input,
      fmt::format("the text has a character at byte {} that this vocabulary of {} tokens cannot spell "
                  "(byte 0x{:02x})",
                  piece.begin + fault.offset, vocabulary, fault.byte));
}

// Of a token in a piece, as the reference reports it.
TextSpan place_of(const Pieces& pieces, const Piece& piece, const ModelToken& token) {
  if (token.begin == token.end) return {piece.origin + token.begin, piece.origin + token.end};
  if (piece.begin + token.end > piece.end)
    return {token.begin, token.end};  // of a character that the model lost
  return {pieces.text.places[piece.begin + token.begin].begin,
          pieces.text.places[piece.begin + token.end - 1].end};
}

}  // namespace

Pieces Impl::cut(std::string_view text, bool parse_special, bool tracked) const {
  Pieces pieces;
  pieces.text.text = text;
  pieces.text.tracked = tracked || pre_tokenizer.needs_places;
  if (pieces.text.tracked) pieces.text.places = places_of(text);
  if (text.empty()) return pieces;
  pieces.list.push_back(pieces.part(0, text.size()));
  added.split(pieces, false, parse_special);
  if (normalizer) normalize_pieces(pieces, normalizer);
  drop_empty(pieces.list);
  added.split(pieces, true, parse_special);
  const auto& pre = reads_bytes ? pre_tokenizer.cut_bytes : pre_tokenizer.cut;
  if (pre) pre(pieces);
  return pieces;
}

void Impl::piece_ids(const Pieces& pieces, std::vector<int32_t>& ids) const {
  for (const Piece& piece : pieces.list) {
    if (piece.token >= 0) {
      ids.push_back(piece.token);
      continue;
    }
    try {
      model->encode_ids(pieces.view(piece), ids);
    } catch (const Unspellable& fault) {
      refuse(fault, piece, size);
    }
  }
}

void Impl::encode_ids(std::string_view text, bool parse_special, std::vector<int32_t>& ids) const {
  check_text(text);
  piece_ids(cut(text, parse_special, false), ids);
}

void Impl::piece_tokens(const Pieces& pieces, std::string_view text, Wanted wanted, Encoding& result) const {
  const std::optional<CodePoints> points = wanted.offsets ? std::optional<CodePoints>(text) : std::nullopt;
  std::vector<ModelToken> tokens;
  for (const Piece& piece : pieces.list) {
    tokens.clear();
    if (piece.token >= 0) {
      tokens.push_back({piece.token, 0, piece.end - piece.begin, true});
    } else {
      try {
        model->encode(pieces.view(piece), tokens);
      } catch (const Unspellable& fault) {
        refuse(fault, piece, size);
      }
    }
    for (const ModelToken& token : tokens) {
      result.ids.push_back(token.id);
      if (points) result.offsets.push_back(points->convert(place_of(pieces, piece, token)));
      if (!wanted.tokens) continue;
      result.tokens.emplace_back(token.as_text
                                     ? pieces.view(piece).substr(token.begin, token.end - token.begin)
                                     : std::string_view(model->vocabulary().token(token.id)));
    }
  }
}

Encoding Impl::encode_text(std::string_view text, int sequence, const EncodeOptions& options,
                           Wanted wanted) const {
  check_text(text);
  const Pieces pieces = cut(text, options.parse_special, wanted.offsets);
  Encoding result;
  if (wanted.offsets || wanted.tokens) {
    piece_tokens(pieces, text, wanted, result);
  } else {
    piece_ids(pieces, result.ids);
  }
  result.type_ids.assign(result.size(), sequence);
  result.special_mask.assign(result.size(), 0);
  result.attention_mask.assign(result.size(), 1);
  result.sequence.assign(result.size(), static_cast<int8_t>(sequence));
  return result;
}

Encoding Impl::encode_input(const TextInput& input, const EncodeOptions& options, Wanted wanted) const {
  std::vector<Encoding> texts;
  texts.push_back(encode_text(input.text, 0, options, wanted));
  if (input.pair) texts.push_back(encode_text(*input.pair, 1, options, wanted));
  if (const auto& limit = options.truncation ? options.truncation : truncation) {
    Truncation cut_to = *limit;
    const size_t added_tokens = options.add_special ? post_processor.added[texts.size() - 1] : 0;
    if (added_tokens > cut_to.max_length) {
      throw Error(ErrorKind::input, fmt::format("truncation to {} tokens, of which {} are added to the text",
                                                cut_to.max_length, added_tokens));
    }
    cut_to.max_length -= added_tokens;
    truncate(texts[0], texts.size() > 1 ? &texts[1] : nullptr, cut_to);
  }
  if (post_processor.run) post_processor.run(texts, options.add_special, wanted);
  Encoding result;
  if (texts.size() == 1) {
    result = std::move(texts[0]);
  } else {
    for (const Encoding& part : texts) append(result, part);
  }
  if (options.offsets == OffsetUnit::bytes) {
    std::vector<std::vector<uint32_t>> starts = {starts_of(input.text)};
    if (input.pair) starts.push_back(starts_of(*input.pair));
    spans_to_bytes(result, starts);
  }
  return result;
}

}  // namespace plumb
