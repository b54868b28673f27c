#include "text/sentencepiece.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/utf8.h"
#include "text/byte_trie.h"
#include "text/charsmap.h"
#include "text/parts.h"

namespace plumb {
namespace {

constexpr const char* kMark = "\u2581";  // a blank in pieces
constexpr const char* kReplacement = "\uFFFD";

class SentencePieceNormalizer {
 public:
  explicit SentencePieceNormalizer(const JsonAt& json);
  void run(Aligned& text) const;

 private:
  // What the text at `begin` becomes, and where what it is made of ends.
  std::string_view next(std::string_view text, size_t begin, size_t& end) const;

  std::optional<Charsmap> charsmap_;
  ByteTrie user_defined_;  // stays as it is
  bool adds_prefix_, trims_, suffix_;
  std::string blank_;
};

SentencePieceNormalizer::SentencePieceNormalizer(const JsonAt& json) {
  const JsonAt own = json.object("sentencepiece"), steps = json.list("normalizers");
  for (size_t i = 0; i < steps.size(); ++i) {
    const JsonAt step = steps.item(i);
    if (step.text("type") != "Precompiled") continue;
    const std::string name = step.file() + ": " + step.path() + ".precompiled_charsmap";
    charsmap_.emplace(decode_base64(step.text("precompiled_charsmap"), name), name);
  }
  adds_prefix_ = own.flag("add_dummy_prefix");
  trims_ = own.flag("remove_extra_whitespaces");
  suffix_ = own.flag("treat_whitespace_as_suffix");
  blank_ = own.flag("escape_whitespaces") ? kMark : " ";
  const JsonAt pieces = own.list("user_defined");
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Json& piece = pieces.value()[i];
    if (!piece.is_string() || piece.get_ref<const std::string&>().empty())
      pieces.item(i).malformed("expected a piece");
    user_defined_.add(piece.get_ref<const std::string&>(), static_cast<int32_t>(i));
  }
}

std::string_view SentencePieceNormalizer::next(std::string_view text, size_t begin, size_t& end) const {
  const std::string_view rest = text.substr(begin);
  if (const size_t length = user_defined_.longest(rest).length; length > 0) {
    end = begin + length;
    return rest.substr(0, length);
  }
  std::string_view replacement;
  if (const size_t length = charsmap_ ? charsmap_->find(rest, replacement) : 0; length > 0) {
    end = begin + length;
    return replacement;
  }
  end = begin;
  next_code_point(text, end);
  return text.substr(begin, end - begin);
}

void SentencePieceNormalizer::run(Aligned& text) const {
  const std::string_view from = text.text;
  Aligned to{.tracked = text.tracked, .origin = text.origin};
  to.text.reserve(from.size() + from.size() / 4 + 8);
  const auto write = [&](std::string_view added, TextSpan place) {
    to.text += added;
    if (to.tracked) to.places.insert(to.places.end(), added.size(), place);
  };
  size_t at = 0, end = 0;
  while (trims_ && at < from.size() && next(from, at, end) == " ") at = end;
  if (at == from.size()) return void(text = std::move(to));
  const TextSpan start = {text.place(at).begin, text.place(at).begin};
  if (adds_prefix_ && !suffix_) write(blank_, start);
  bool after_blank = trims_;
  for (; at < from.size(); at = end) {
    std::string_view part = next(from, at, end);
    const TextSpan place = {text.place(at).begin, text.place(end - 1).end};
    while (after_blank && part.starts_with(' ')) part.remove_prefix(1);
    if (part.empty()) continue;
    after_blank = trims_ && part.ends_with(' ');
    for (const char& c : part) write(c == ' ' ? std::string_view(blank_) : std::string_view(&c, 1), place);
    check_growth(from.size(), to.text.size());
  }
  while (trims_ && to.text.ends_with(blank_)) {
    to.text.resize(to.text.size() - blank_.size());
    if (to.tracked) to.places.resize(to.text.size());
  }
  if (adds_prefix_ && suffix_) write(blank_, to.place(to.text.empty() ? 0 : to.text.size() - 1));
  text = std::move(to);
}

// Pieces to text: the mark is a blank, but not at the beginning; bytes are joined to characters, each that
// belongs to none becomes U+FFFD; the unknown piece has a text of its own.
class SentencePieceDecoder : public DecodeStage {
 public:
  explicit SentencePieceDecoder(const JsonAt& own)
      : drops_first_(own.flag("drop_first_blank")),
        drops_all_(own.flag("drop_leading_blanks")),
        bytes_(own.flag("bytes")),
        unknown_(own.text("unknown", "")),
        surface_(own.text("surface")) {}

  void add(std::string_view token, bool, const TakeToken& next) override {
    if (bytes_ && is_byte(token)) {
      held_ += static_cast<char>(16 * digit(token[3]) + digit(token[4]));
      give(next, false);
      return;
    }
    give(next, true);
    at_begin_ = at_begin_ && !dropped_ && !any_;
    dropped_ = false;
    if (token == unknown_) return put(surface_, next);
    if (at_begin_ && drops_first_ && token.starts_with(kMark)) {
      token.remove_prefix(std::string_view(kMark).size());
      dropped_ = !drops_all_;
    }
    std::string text;
    for (size_t done = 0; done < token.size();) {
      const size_t mark = std::min(token.find(kMark, done), token.size());
      text += token.substr(done, mark - done);
      if (mark < token.size()) text += ' ';
      done = mark + std::string_view(kMark).size();
    }
    put(text, next);
  }
  void finish(const TakeToken& next) override { give(next, true); }

 private:
  static int digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  }
  static bool is_byte(std::string_view token) {
    return token.size() == 6 && token.starts_with("<0x") && token[5] == '>' && digit(token[3]) >= 0 &&
           digit(token[4]) >= 0;
  }
  void put(std::string_view text, const TakeToken& next) {
    any_ = any_ || !text.empty();
    next(text, true);
  }
  // What the bytes are; the end of them too if nothing can follow.
  void give(const TakeToken& next, bool all) {
    std::string text;
    size_t done = 0;
    while (done < held_.size()) {
      const std::string_view rest = std::string_view(held_).substr(done);
      if (!all && utf8_unfinished(rest) == rest.size()) break;
      size_t length = 1;
      while (length < 4 && length < rest.size() && (rest[length] & 0xC0) == 0x80 &&
             utf8_fault(rest.substr(0, length)) != kUtf8Valid)
        ++length;
      const bool valid = utf8_fault(rest.substr(0, length)) == kUtf8Valid;
      text += valid ? rest.substr(0, length) : std::string_view(kReplacement);
      done += valid ? length : 1;
    }
    held_.erase(0, done);
    if (!text.empty()) put(text, next);
  }

  bool drops_first_, drops_all_, bytes_;
  std::string unknown_, surface_;
  std::string held_;
  bool at_begin_ = true, dropped_ = false, any_ = false;
};

OrderedJson replace_step(const char* kind, const std::string& from, const std::string& to) {
  return {{"type", "Replace"}, {"pattern", {{kind, from}}}, {"content", to}};
}

OrderedJson normalizer_json(const SentencePieces& pieces, const SentencePieceRules& rules) {
  OrderedJson steps = OrderedJson::array();
  if (!rules.charsmap.empty())
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", encode_base64(rules.charsmap)}});
  if (rules.remove_extra_whitespaces) {
    steps.push_back(replace_step("Regex", "\\A +| +\\z", ""));
    steps.push_back(replace_step("Regex", " {2,}", " "));
  }
  const std::string blank = rules.escape_whitespaces ? kMark : " ";
  if (rules.escape_whitespaces) steps.push_back(replace_step("String", " ", blank));
  if (rules.add_dummy_prefix && !rules.whitespace_as_suffix)
    steps.push_back({{"type", "Prepend"}, {"prepend", blank}});
  if (rules.add_dummy_prefix && rules.whitespace_as_suffix)
    steps.push_back(replace_step("Regex", "\\z", blank));
  OrderedJson user_defined = OrderedJson::array();
  for (const SentencePiece& piece : pieces.list) {
    if (piece.type == PieceType::user_defined) user_defined.push_back(piece.text);
  }
  return {{"type", "Sequence"},
          {"normalizers", steps},
          {"sentencepiece",
           {{"add_dummy_prefix", rules.add_dummy_prefix},
            {"remove_extra_whitespaces", rules.remove_extra_whitespaces},
            {"escape_whitespaces", rules.escape_whitespaces},
            {"treat_whitespace_as_suffix", rules.whitespace_as_suffix},
            {"user_defined", user_defined}}}};
}

OrderedJson decoder_json(const SentencePieces& pieces, const SentencePieceRules& rules) {
  const bool drops_first = rules.add_dummy_prefix || rules.remove_extra_whitespaces;
  OrderedJson steps = OrderedJson::array();
  steps.push_back(replace_step("String", kMark, " "));
  if (pieces.byte_fallback) steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  if (drops_first) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  OrderedJson own = {{"drop_first_blank", drops_first},
                     {"drop_leading_blanks", rules.remove_extra_whitespaces},
                     {"bytes", pieces.byte_fallback},
                     {"surface", rules.unknown_surface}};
  for (const SentencePiece& piece : pieces.list) {
    if (piece.type == PieceType::unknown) own["unknown"] = piece.text;
  }
  return {{"type", "Sequence"}, {"decoders", steps}, {"sentencepiece", own}};
}

}  // namespace

Normalizer read_sentencepiece_normalizer(const JsonAt& json) {
  return [normalizer = std::make_shared<SentencePieceNormalizer>(json)](Aligned& text) {
    normalizer->run(text);
  };
}

Decoder read_sentencepiece_decoder(const JsonAt& json) {
  Decoder decoder;
  const SentencePieceDecoder first(json.object("sentencepiece"));
  decoder.stages.emplace_back([first](bool) { return std::make_unique<SentencePieceDecoder>(first); });
  decoder.joins.push_back(false);
  return decoder;
}

void set_sentencepiece(const SentencePieces& pieces, const SentencePieceRules& rules, const std::string& name,
                       Tokenizer::Impl& impl) {
  impl.model = make_sentencepiece(pieces, name);  // checks them
  set_part(impl, "normalizer", normalizer_json(pieces, rules));
  set_part(impl, "decoder", decoder_json(pieces, rules));
  for (size_t id = 0; id < pieces.list.size(); ++id) {
    const SentencePiece& piece = pieces.list[id];
    const bool own = piece.type == PieceType::user_defined;
    if (!own && piece.type != PieceType::control) continue;
    impl.added.add({.id = static_cast<int32_t>(id), .content = piece.text, .special = !own, .in_model = own});
  }
}

}  // namespace plumb
