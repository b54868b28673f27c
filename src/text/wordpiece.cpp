// WordPiece, which takes the longest piece that fits, and WordLevel, which takes the word or nothing.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "plumb/error.h"
#include "text/byte_trie.h"
#include "text/model.h"

namespace plumb {
namespace {

// The token of what the vocabulary lacks. A file may name one that it does not have: it does until it is
// needed.
class Unknown {
 public:
  Unknown(const Vocabulary& vocabulary, std::string token)
      : token_(std::move(token)), id_(vocabulary.find(token_)) {}
  const std::string& token() const { return token_; }
  void take(std::string_view piece, std::vector<ModelToken>& out) const {
    if (id_ < 0) {
      throw Error(ErrorKind::input,
                  fmt::format("the vocabulary lacks the word {}, and its unknown token {} too",
                              quote_json(piece), quote_json(token_)));
    }
    out.push_back({id_, 0, static_cast<uint32_t>(piece.size()), false});
  }

 private:
  std::string token_;
  int32_t id_;
};

class WordPiece : public TokenModel {
 public:
  WordPiece(Vocabulary vocab, const WordPieceOptions& options)
      : TokenModel(std::move(vocab)),
        unknown_(vocabulary(), options.unknown),
        prefix_(options.prefix),
        most_characters_(options.most_characters) {
    for (size_t id = 0; id < vocabulary().size(); ++id) {
      const std::string& token = vocabulary().token(static_cast<int32_t>(id));
      if (!token.empty()) trie_.add(token, static_cast<int32_t>(id));
    }
    inside_ = trie_.walk(ByteTrie::kRoot, prefix_);
  }

  void encode(std::string_view piece, std::vector<ModelToken>& out) const override {
    const size_t first = out.size();
    const auto characters =
        std::count_if(piece.begin(), piece.end(), [](char c) { return (c & 0xC0) != 0x80; });
    bool fits = static_cast<size_t>(characters) <= most_characters_;
    for (size_t i = 0; fits && i < piece.size();) {
      const auto found = trie_.longest(piece.substr(i), i == 0 ? ByteTrie::kRoot : inside_);
      fits = found.length > 0;
      if (!fits) break;
      out.push_back({found.value, static_cast<uint32_t>(i), static_cast<uint32_t>(i + found.length), false});
      i += found.length;
    }
    if (fits) return;
    out.resize(first);
    unknown_.take(piece, out);
  }

  std::string kind() const override { return "WordPiece"; }
  std::string options() const override {
    return dump_json(OrderedJson{{"type", "WordPiece"},
                                 {"unk_token", unknown_.token()},
                                 {"continuing_subword_prefix", prefix_},
                                 {"max_input_chars_per_word", most_characters_}});
  }
  std::string contents() const override { return "\"vocab\": " + vocabulary_json(vocabulary()); }
  uint64_t fingerprint() const override { return 0; }

 private:
  Unknown unknown_;
  std::string prefix_;
  size_t most_characters_;
  ByteTrie trie_;
  uint32_t inside_;  // where a piece that continues a word starts; kNone if no token has the prefix
};

class WordLevel : public TokenModel {
 public:
  WordLevel(Vocabulary vocab, const std::string& unknown)
      : TokenModel(std::move(vocab)), unknown_(vocabulary(), unknown) {}

  void encode(std::string_view piece, std::vector<ModelToken>& out) const override {
    const int32_t id = vocabulary().find(piece);
    if (id < 0) return unknown_.take(piece, out);
    out.push_back({id, 0, static_cast<uint32_t>(piece.size()), false});
  }

  std::string kind() const override { return "WordLevel"; }
  std::string options() const override {
    return dump_json(OrderedJson{{"type", "WordLevel"}, {"unk_token", unknown_.token()}});
  }
  std::string contents() const override { return "\"vocab\": " + vocabulary_json(vocabulary()); }
  uint64_t fingerprint() const override { return 0; }

 private:
  Unknown unknown_;
};

}  // namespace

std::unique_ptr<TokenModel> make_wordpiece(Vocabulary vocabulary, const WordPieceOptions& options) {
  return std::make_unique<WordPiece>(std::move(vocabulary), options);
}

std::unique_ptr<TokenModel> read_wordpiece(const JsonAt& json) {
  const WordPieceOptions options = {json.text("unk_token"), json.text("continuing_subword_prefix"),
                                    json.whole("max_input_chars_per_word", ~0ull >> 1)};
  return make_wordpiece(read_vocabulary(json), options);
}

std::unique_ptr<TokenModel> read_wordlevel(const JsonAt& json) {
  const std::string unknown = json.text("unk_token");
  return std::make_unique<WordLevel>(read_vocabulary(json), unknown);
}

}  // namespace plumb
