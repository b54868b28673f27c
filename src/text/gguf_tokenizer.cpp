// The tokenizer inside a GGUF. The file says which of four kinds it is; the parts are made as the models'
// own tokenizer.json has them.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/gguf.h"
#include "base/utf8.h"
#include "plumb/error.h"
#include "text/gguf_patterns.h"
#include "text/parts.h"
#include "text/sentencepiece.h"
#include "text/tokenizer_files.h"

namespace plumb {
namespace {

// The keys that begin with "tokenizer.ggml.".
class Keys {
 public:
  Keys(const Json& values, const std::string& file) : json_(values, file) {}
  static std::string name(const char* key) { return std::string("tokenizer.ggml.") + key; }

  bool has(const char* key) const { return json_.has(name(key).c_str()); }
  std::string text(const char* key) const { return json_.text(name(key).c_str()); }
  bool flag(const char* key, bool fallback) const { return json_.flag(name(key).c_str(), fallback); }
  JsonAt list(const char* key) const { return json_.list(name(key).c_str()); }
  std::string where(const char* key) const { return json_.file() + ": " + name(key); }
  const std::string& file() const { return json_.file(); }

  // An id, which has to be one of the tokens.
  std::optional<int32_t> id(const char* key, size_t tokens) const {
    if (!has(key)) return std::nullopt;
    const Json& value = json_.value()[name(key)];
    // 32 ones stand for "none".
    if (value.is_number_unsigned() && value.get<uint64_t>() == 0xFFFFFFFF) return std::nullopt;
    return static_cast<int32_t>(json_.whole(name(key).c_str(), tokens - 1));
  }

 private:
  JsonAt json_;
};

struct Token {
  std::string text;
  float score = 0;
  PieceType type = PieceType::normal;
};

std::vector<Token> read_tokens(const Keys& keys) {
  const JsonAt list = keys.list("tokens");
  std::vector<Token> tokens(list.size());
  if (tokens.empty()) list.malformed("there are no tokens");
  for (size_t id = 0; id < tokens.size(); ++id) {
    const Json& token = list.value()[id];
    if (!token.is_string()) list.item(id).malformed("expected a string");
    tokens[id].text = token.get<std::string>();
    if (utf8_fault(tokens[id].text) != kUtf8Valid) list.item(id).malformed("the token is not UTF-8");
  }
  for (const char* key : {"scores", "token_type"}) {
    if (!keys.has(key)) continue;
    const JsonAt values = keys.list(key);
    if (values.size() != tokens.size())
      values.malformed(fmt::format("{} values for {} tokens", values.size(), tokens.size()));
    const bool scores = std::string_view(key) == "scores";
    for (size_t id = 0; id < tokens.size(); ++id) {
      const Json& value = values.value()[id];
      if (scores) {
        if (!value.is_number()) values.item(id).malformed("expected a number");
        tokens[id].score = value.get<float>();
      } else {
        if (!value.is_number_integer() || value < 1 || value > 6)
          values.item(id).malformed("expected a type from 1 to 6");
        tokens[id].type = static_cast<PieceType>(value.get<int>());
      }
    }
  }
  return tokens;
}

void add_tokens(const std::vector<Token>& tokens, Tokenizer::Impl& impl) {
  for (size_t id = 0; id < tokens.size(); ++id) {
    const PieceType type = tokens[id].type;
    const bool special = type == PieceType::control || type == PieceType::unknown;
    if (tokens[id].text.empty() || (!special && type != PieceType::user_defined)) continue;
    impl.added.add({.id = static_cast<int32_t>(id), .content = tokens[id].text, .special = special});
  }
}

void set_roles(const Keys& keys, size_t tokens, Tokenizer::Impl& impl) {
  role_of(impl, TokenRole::bos) = keys.id("bos_token_id", tokens);
  role_of(impl, TokenRole::eos) = keys.id("eos_token_id", tokens);
  role_of(impl, TokenRole::pad) = keys.id("padding_token_id", tokens);
  role_of(impl, TokenRole::unk) = keys.id("unknown_token_id", tokens);
  role_of(impl, TokenRole::mask) = keys.id("mask_token_id", tokens);
}

void set_ends(const Keys& keys, bool add_bos, bool add_eos, Tokenizer::Impl& impl) {
  const auto end = [&](const char* key, bool fallback, TokenRole which) {
    if (!keys.flag(key, fallback)) return std::optional<int32_t>();
    if (!role_of(impl, which) && keys.has(key))
      throw Error(ErrorKind::file,
                  fmt::format("{} is true, but the file names no such token", keys.where(key)));
    return role_of(impl, which);
  };
  set_ends(impl, end("add_bos_token", add_bos, TokenRole::bos),
           end("add_eos_token", add_eos, TokenRole::eos));
}

Vocabulary vocabulary_of(const Keys& keys, const std::vector<Token>& tokens) {
  Vocabulary vocabulary;
  for (size_t id = 0; id < tokens.size(); ++id) {
    const std::string& text = tokens[id].text;
    if (text.empty()) continue;
    if (const int32_t known = vocabulary.find(text); known >= 0) {
      throw Error(ErrorKind::file, fmt::format("{}: {} is token {} and token {}", keys.where("tokens"),
                                               quote_json(text), known, id));
    }
    vocabulary.add(static_cast<int32_t>(id), text);
  }
  return vocabulary;
}

std::vector<BpeMerge> read_merges(const Keys& keys, const Vocabulary& vocabulary) {
  const JsonAt list = keys.list("merges");
  std::vector<BpeMerge> merges;
  merges.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& merge = list.value()[i];
    if (!merge.is_string()) list.item(i).malformed("expected a string");
    merges.push_back(read_merge(merge.get_ref<const std::string&>(), vocabulary,
                                fmt::format("{}[{}]", keys.where("merges"), i)));
  }
  return merges;
}

void read_byte_level(const Keys& keys, const std::vector<Token>& tokens, Tokenizer::Impl& impl) {
  const GgufPatterns patterns =
      gguf_patterns(keys.has("pre") ? keys.text("pre") : "default", keys.where("pre"));
  set_byte_level(impl, {.patterns = patterns.patterns});
  Vocabulary vocabulary = vocabulary_of(keys, tokens);
  std::vector<BpeMerge> merges = read_merges(keys, vocabulary);
  set_bpe(impl, std::move(vocabulary), std::move(merges), {.ignore_merges = patterns.ignore_merges});
  add_tokens(tokens, impl);
  set_ends(keys, patterns.add_bos, false, impl);
}

// BPE over characters with the merges written out; blanks are U+2581.
void read_character_bpe(const Keys& keys, const std::vector<Token>& tokens, Tokenizer::Impl& impl) {
  set_part(impl, "normalizer", {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}});
  set_part(
      impl, "pre_tokenizer",
      {{"type", "Split"}, {"pattern", {{"Regex", "\\n+"}}}, {"behavior", "Isolated"}, {"invert", false}});
  const OrderedJson blanks = {{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}};
  OrderedJson steps = OrderedJson::array();
  for (const OrderedJson& step :
       {blanks, OrderedJson{{"type", "ByteFallback"}}, OrderedJson{{"type", "Fuse"}}})
    steps.push_back(step);
  set_part(impl, "decoder", {{"type", "Sequence"}, {"decoders", steps}});
  Vocabulary vocabulary = vocabulary_of(keys, tokens);
  std::vector<BpeMerge> merges = read_merges(keys, vocabulary);
  BpeOptions options = {.fuse_unknown = true, .byte_fallback = true};
  if (role_of(impl, TokenRole::unk)) options.unknown = vocabulary.token(*role_of(impl, TokenRole::unk));
  set_bpe(impl, std::move(vocabulary), std::move(merges), options);
  add_tokens(tokens, impl);
  set_ends(keys, true, false, impl);
}

void read_sentencepiece(const Keys& keys, const std::vector<Token>& tokens, bool unigram,
                        Tokenizer::Impl& impl) {
  SentencePieces pieces;
  pieces.kind = unigram ? SentencePieces::Kind::unigram : SentencePieces::Kind::bpe;
  pieces.wide_scores = true;
  const std::optional<int32_t> unknown = role_of(impl, TokenRole::unk);
  for (size_t id = 0; id < tokens.size(); ++id) {
    PieceType type = tokens[id].type;
    pieces.byte_fallback = pieces.byte_fallback || type == PieceType::byte;
    // Only one piece stands for what is unknown; others of that type are found in no text. User-defined
    // tokens are found before the model sees the text.
    if (type == PieceType::unknown) type = PieceType::control;
    if (unknown && static_cast<size_t>(*unknown) == id) type = PieceType::unknown;
    if (type == PieceType::user_defined || type == PieceType::unused) type = PieceType::normal;
    pieces.list.push_back({tokens[id].text, tokens[id].score, type});
  }
  SentencePieceRules rules;
  rules.add_dummy_prefix = keys.flag("add_space_prefix", true);
  rules.remove_extra_whitespaces = keys.flag("remove_extra_whitespaces", false);
  if (keys.has("precompiled_charsmap")) {
    const JsonAt bytes = keys.list("precompiled_charsmap");
    rules.charsmap.reserve(bytes.size());
    for (const Json& byte : bytes.value()) {
      if (!byte.is_number_integer() || byte < -128 || byte > 255) bytes.malformed("expected bytes");
      rules.charsmap += static_cast<char>(byte.get<int>());
    }
  }
  set_sentencepiece(pieces, rules, keys.where("tokens"), impl);
  impl.added = {};
  add_tokens(tokens, impl);
  set_ends(keys, !unigram, unigram, impl);
}

// Tokens are spelled with U+2581 where a word begins; BERT's own files mark the others, with "##".
std::string word_piece(const Token& token) {
  constexpr std::string_view kMark = "\u2581";
  if (token.type != PieceType::normal || (token.text.starts_with('[') && token.text.ends_with(']')))
    return token.text;
  return token.text.starts_with(kMark) ? token.text.substr(kMark.size()) : "##" + token.text;
}

void read_word_pieces(const Keys& keys, std::vector<Token> tokens, Tokenizer::Impl& impl) {
  for (Token& token : tokens) {
    if (!token.text.empty()) token.text = word_piece(token);
  }
  const bool lower = keys.flag("normalizer.lowercase", true);
  set_part(impl, "normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", true},
            {"strip_accents", keys.flag("normalizer.strip_accents", lower)},
            {"lowercase", lower}});
  set_part(impl, "pre_tokenizer", {{"type", "BertPreTokenizer"}});
  const std::optional<int32_t> unknown = role_of(impl, TokenRole::unk);
  if (!unknown) throw Error(ErrorKind::file, keys.where("unknown_token_id") + " is missing");
  const std::string unknown_text = tokens[static_cast<size_t>(*unknown)].text;
  impl.model = make_wordpiece(vocabulary_of(keys, tokens), {.unknown = unknown_text});
  add_tokens(tokens, impl);
  // "seperator" is how the format spells it.
  const auto cls = keys.id(keys.has("cls_token_id") ? "cls_token_id" : "bos_token_id", tokens.size());
  const auto sep = keys.id("seperator_token_id", tokens.size());
  if (!cls || !sep)
    throw Error(ErrorKind::file,
                fmt::format("{}: cls_token_id or seperator_token_id is missing", keys.file()));
  set_bert_ends(impl, *cls, *sep);
}

}  // namespace

void read_gguf_tokenizer(const std::string& path, Tokenizer::Impl& impl) {
  const Json values = read_gguf_values(path);
  const Keys keys(values, path);
  if (!keys.has("model")) throw Error(ErrorKind::file, path + ": there is no tokenizer in this GGUF");
  const std::string model = keys.text("model");
  const std::vector<Token> tokens = read_tokens(keys);
  set_roles(keys, tokens.size(), impl);
  if (model == "gpt2") {
    read_byte_level(keys, tokens, impl);
  } else if (model == "llama" || model == "t5") {
    read_sentencepiece(keys, tokens, model == "t5", impl);
  } else if (model == "gemma4") {
    read_character_bpe(keys, tokens, impl);
  } else if (model == "bert") {
    read_word_pieces(keys, tokens, impl);
  } else {
    throw Error(ErrorKind::unsupported, fmt::format("{}: a tokenizer of the kind {} is not known",
                                                    keys.where("model"), quote_json(model)));
  }
}

}  // namespace plumb
