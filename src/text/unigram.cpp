// The unigram language model (Kudo 2018): of all ways to cut a piece into tokens, the most probable.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "base/utf8.h"
#include "plumb/error.h"
#include "text/byte_trie.h"
#include "text/model.h"

namespace plumb {
namespace {

constexpr double kUnknownPenalty = 10;  // below the least probable token

class Unigram : public TokenModel {
 public:
  struct Contents {
    Vocabulary vocabulary;
    std::vector<double> scores;
    int32_t unknown = -1;
    bool byte_fallback = false;
  };
  explicit Unigram(Contents contents);
  void encode(std::string_view piece, std::vector<ModelToken>& out) const override;

  std::string kind() const override { return "Unigram"; }
  std::string options() const override;
  std::string contents() const override;
  uint64_t fingerprint() const override;

 private:
  struct Best {
    double score;
    uint32_t begin;
    int32_t id;
  };
  void find_best(std::string_view piece, std::vector<Best>& best) const;
  void take(std::string_view piece, size_t begin, size_t end, std::vector<ModelToken>& out) const;
  [[noreturn]] void refuse(std::string_view text) const;

  std::vector<double> scores_;
  int32_t unknown_;
  bool byte_fallback_;
  double unknown_score_;
  ByteTrie trie_;
  int32_t byte_ids_[256];
};

Unigram::Unigram(Contents contents)
    : TokenModel(std::move(contents.vocabulary)),
      scores_(std::move(contents.scores)),
      unknown_(contents.unknown),
      byte_fallback_(contents.byte_fallback) {
  double least = std::numeric_limits<double>::infinity();
  for (const double score : scores_) least = std::min(least, score);
  unknown_score_ = least - kUnknownPenalty;
  for (size_t id = 0; id < vocabulary().size(); ++id) {
    const std::string& token = vocabulary().token(static_cast<int32_t>(id));
    if (!token.empty()) trie_.add(token, static_cast<int32_t>(id));
  }
  for (int byte = 0; byte < 256; ++byte) byte_ids_[byte] = vocabulary().find(fmt::format("<0x{:02X}>", byte));
}

void Unigram::refuse(std::string_view text) const {
  throw Error(ErrorKind::input,
              fmt::format("the vocabulary lacks {}, and the file names no unknown token (unk_id)",
                          quote_json(text.substr(0, 60))));
}

// best[i]: the most probable way to the first i bytes, by its last token. Of equals the one found first.
void Unigram::find_best(std::string_view piece, std::vector<Best>& best) const {
  constexpr uint32_t kUnreached = ~0u;
  best.assign(piece.size() + 1, {0, kUnreached, 0});
  for (size_t i = 0; i < piece.size();) {
    size_t next = i;
    next_code_point(piece, next);
    const double before = best[i].score;
    const auto offer = [&](size_t end, double score, int32_t id) {
      Best& there = best[end];
      if (there.begin != kUnreached && !(score + before > there.score)) return;
      if (id < 0) refuse(piece.substr(i, end - i));
      there = {score + before, static_cast<uint32_t>(i), id};
    };
    bool single = false;
    uint32_t node = ByteTrie::kRoot;
    for (size_t end = i; end < piece.size();) {
      node = trie_.step(node, static_cast<unsigned char>(piece[end]));
      if (node == ByteTrie::kNone) break;
      ++end;
      const int32_t id = trie_.value(node);
      if (id < 0) continue;
      offer(end, scores_[static_cast<size_t>(id)], id);
      single = single || end == next;
    }
    if (!single) offer(next, unknown_score_, unknown_);
    i = next;
  }
}

// A part that may be known by its whole text even where each of its characters is not.
void Unigram::take(std::string_view piece, size_t begin, size_t end, std::vector<ModelToken>& out) const {
  const std::string_view text = piece.substr(begin, end - begin);
  const auto token = [&](int32_t id, bool as_text) {
    out.push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(end), as_text});
  };
  if (const int32_t id = vocabulary().find(text); id >= 0) return token(id, false);
  const auto has_byte = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)] >= 0; };
  if (byte_fallback_ && std::all_of(text.begin(), text.end(), has_byte)) {
    for (const char c : text) token(byte_ids_[static_cast<unsigned char>(c)], false);
    return;
  }
  if (unknown_ < 0) refuse(text);
  token(unknown_, true);
}

void Unigram::encode(std::string_view piece, std::vector<ModelToken>& out) const {
  thread_local std::vector<Best> best;
  thread_local std::vector<std::pair<uint32_t, uint32_t>> parts;  // from the end
  find_best(piece, best);
  parts.clear();
  bool before_unknown = false;
  for (size_t end = piece.size(); end > 0;) {
    const Best& last = best[end];
    const bool unknown = last.id == unknown_;
    if (unknown && before_unknown) {
      parts.back().first = last.begin;  // unknown characters in a row are one
    } else {
      parts.emplace_back(last.begin, static_cast<uint32_t>(end));
    }
    before_unknown = unknown;
    end = last.begin;
  }
  for (size_t i = parts.size(); i-- > 0;) take(piece, parts[i].first, parts[i].second, out);
}

std::string Unigram::options() const {
  OrderedJson options = {{"type", "Unigram"}, {"unk_id", nullptr}, {"byte_fallback", byte_fallback_}};
  if (unknown_ >= 0) options["unk_id"] = unknown_;
  return dump_json(options);
}

std::string Unigram::contents() const {
  std::string text = "\"vocab\": [";
  for (size_t id = 0; id < scores_.size(); ++id) {
    text += fmt::format("{}      [{}, {}]", id == 0 ? "\n" : ",\n",
                        quote_json(vocabulary().token(static_cast<int32_t>(id))), scores_[id]);
  }
  return text + "\n    ]";
}

uint64_t Unigram::fingerprint() const {
  Hash hash;
  for (const double score : scores_) hash.add(std::bit_cast<uint64_t>(score));
  return hash.value();
}

}  // namespace

std::unique_ptr<TokenModel> read_unigram(const JsonAt& json) {
  const JsonAt vocab = json.list("vocab");
  Unigram::Contents contents;
  contents.scores.reserve(vocab.value().size());
  for (size_t id = 0; id < vocab.value().size(); ++id) {
    const Json& entry = vocab.value()[id];
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      vocab.item(id).malformed("expected a token and its score");
    contents.vocabulary.add(static_cast<int32_t>(id), entry[0].get<std::string>());
    contents.scores.push_back(entry[1].get<double>());
  }
  if (json.has("unk_id")) {
    contents.unknown = json.id("unk_id");
    if (static_cast<size_t>(contents.unknown) >= contents.scores.size())
      json.malformed(
          fmt::format("\"unk_id\" is {} in a vocabulary of {}", contents.unknown, contents.scores.size()));
  }
  contents.byte_fallback = json.flag("byte_fallback", false);
  return std::make_unique<Unigram>(std::move(contents));
}

}  // namespace plumb
