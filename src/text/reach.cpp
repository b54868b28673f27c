#include "text/reach.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "plumb/error.h"
#include "text/bpe_model.h"
#include "text/byte_level.h"
#include "text/tokenizer_impl.h"

namespace plumb {
namespace {

using Impl = Tokenizer::Impl;

constexpr size_t kCompany = 64;  // single characters tried beside a token

class Reach {
 public:
  explicit Reach(const Impl& impl)
      : impl_(impl), options_(parse_json(impl.model->options(), "the model's options")) {
    prefix_ = options_.value("continuing_subword_prefix", Json()).is_string()
                  ? options_["continuing_subword_prefix"].get<std::string>()
                  : "";
    suffix_ = options_.value("end_of_word_suffix", Json()).is_string()
                  ? options_["end_of_word_suffix"].get<std::string>()
                  : "";
    for (size_t id = 0; id < vocabulary().size() && company_.size() < kCompany; ++id) {
      const std::string text = core(vocabulary().token(static_cast<int32_t>(id)));
      if (text.empty() || utf8_fault(text) != kUtf8Valid) continue;
      size_t end = 0;
      next_code_point(text, end);
      if (end == text.size()) company_.push_back(text);
    }
  }

  // Why no text becomes the token; "" if one does.
  std::string fault(int32_t id) const {
    const std::string& token = vocabulary().token(id);
    if (options_.value("byte_fallback", false) && token.size() == 6 && token.starts_with("<0x") &&
        token.ends_with(">"))
      return "";
    if (vocabulary().find(token) != id)
      return fmt::format("{} has the same spelling", vocabulary().find(token));
    if (impl_.reads_bytes && !unspell_bytes(token)) return "it has characters that stand for no byte";
    const std::string text = core(token);
    if (text.empty()) return "it has no text";
    std::string why = model_fault(id, token, text);
    return why.empty() ? passing_fault(text) : why;
  }

 private:
  const Vocabulary& vocabulary() const { return impl_.model->vocabulary(); }
  bool inside(std::string_view token) const { return !prefix_.empty() && token.starts_with(prefix_); }
  bool last(std::string_view token) const { return !suffix_.empty() && token.ends_with(suffix_); }

  // What the token stands for in a piece that the model is given.
  std::string core(std::string_view token) const {
    if (impl_.reads_bytes) return unspell_bytes(token).value_or("");
    if (inside(token)) token.remove_prefix(prefix_.size());
    if (last(token)) token.remove_suffix(suffix_.size());
    return std::string(token);
  }

  // The tokens of a piece; empty where the model refuses it.
  std::vector<ModelToken> tokens(std::string_view piece) const try {
    std::vector<ModelToken> out;
    impl_.model->encode(piece, out);
    return out;
  } catch (const Error&) {
    return {};
  } catch (const Unspellable&) {
    return {};
  }

  bool has(std::string_view piece, int32_t id) const {
    const auto out = tokens(piece);
    return std::any_of(out.begin(), out.end(), [&](const ModelToken& t) { return t.id == id; });
  }

  std::string model_fault(int32_t id, std::string_view token, const std::string& text) const {
    if (has(text, id)) return "";
    const bool before = inside(token), after = !suffix_.empty() && !last(token);
    for (const std::string& c : company_) {
      if (before && has(c + text, id)) return "";
      if (after && has(text + c, id)) return "";
      if (!before || !after) continue;
      std::string between = c + text;
      between += c;
      if (has(between, id)) return "";
    }
    std::string words;
    for (const ModelToken& t : tokens(text))
      words += (words.empty() ? "" : ", ") + quote_json(vocabulary().token(t.id));
    return words.empty() ? "the model refuses its text" : fmt::format("the model makes {} of it", words);
  }

  // Whether the token's text is still in one piece behind normalizer and pre-tokenizer.
  std::string passing_fault(const std::string& text) const {
    std::vector<std::string> sources = {text};
    if (const auto bytes = unspell_bytes(text); bytes && !impl_.reads_bytes) sources.push_back(*bytes);
    bool tried = false;
    for (const std::string& source : sources) {
      if (utf8_fault(source) != kUtf8Valid) return "";  // part of a character
      for (const char* around : {"", "x", " ", "1", "."}) {
        tried = true;
        if (passes(around + source + around, text)) return "";
      }
    }
    if (!tried) return "";
    std::string words;
    const Pieces pieces = impl_.cut(sources.back(), false, false);
    for (const Piece& piece : pieces.list)
      words += (words.empty() ? "" : ", ") + quote_json(pieces.view(piece));
    return fmt::format("normalizer and pre-tokenizer make {} of it", words.empty() ? "nothing" : words);
  }

  bool passes(const std::string& source, const std::string& text) const try {
    const Pieces pieces = impl_.cut(source, false, false);
    return std::any_of(pieces.list.begin(), pieces.list.end(), [&](const Piece& piece) {
      return piece.token < 0 && pieces.view(piece).find(text) != std::string_view::npos;
    });
  } catch (const Error&) {
    return false;
  }

  const Impl& impl_;
  Json options_;
  std::string prefix_, suffix_;
  std::vector<std::string> company_;
};

}  // namespace

bool is_lossless(const Tokenizer& tokenizer) {
  const Impl& impl = tokenizer.impl();
  return impl.pre_tokenizer.spells_bytes && !impl.normalizer && impl.decoder.only_byte_level;
}

std::vector<std::pair<int32_t, int32_t>> repeated_tokens(const Tokenizer& tokenizer) {
  const Vocabulary& vocabulary = tokenizer.impl().model->vocabulary();
  std::vector<std::pair<int32_t, int32_t>> list;
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (!vocabulary.has(id)) continue;
    if (const int32_t found = vocabulary.find(vocabulary.token(id)); found != id)
      list.emplace_back(id, found);
  }
  return list;
}

std::optional<int32_t> unknown_token(const Tokenizer& tokenizer) {
  const Impl& impl = tokenizer.impl();
  const Json options = parse_json(impl.model->options(), "the model's options");
  if (options.contains("unk_id") && options["unk_id"].is_number()) return options["unk_id"].get<int32_t>();
  if (!options.contains("unk_token") || !options["unk_token"].is_string()) return {};
  const int32_t id = impl.model->vocabulary().find(options["unk_token"].get<std::string>());
  return id < 0 ? std::nullopt : std::optional(id);
}

std::vector<Unreachable> unreachable_tokens(const Tokenizer& tokenizer) {
  const Impl& impl = tokenizer.impl();
  const Reach reach(impl);
  const std::optional<int32_t> unknown = unknown_token(tokenizer);
  std::vector<Unreachable> list;
  for (size_t i = 0; i < impl.model->vocabulary().size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (!impl.model->vocabulary().has(id) || impl.added_by_id.contains(id) || id == unknown) continue;
    if (std::string why = reach.fault(id); !why.empty()) list.push_back({id, std::move(why)});
  }
  return list;
}

}  // namespace plumb
