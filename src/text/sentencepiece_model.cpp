// The two models of SentencePiece. Unlike the models of tokenizer.json they read a whole text as one piece;
// user-defined pieces are found in it before all others (BPE) or win by their score (unigram).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "base/utf8.h"
#include "plumb/error.h"
#include "text/byte_trie.h"
#include "text/sentencepiece.h"

namespace plumb {
namespace {

constexpr float kUnknownPenalty = 10;   // below the least probable piece
constexpr float kFarScore = 100000;     // where sums start again from 0, so that f32 stays exact enough
constexpr int kDeepestUnused = 100;     // unused pieces made of unused pieces
constexpr size_t kLongestPiece = 8000;  // in bytes

bool is_in_text(PieceType type) {
  return type == PieceType::normal || type == PieceType::user_defined || type == PieceType::unused;
}

// "<0x0A>" of type byte; -1 for any other.
int byte_of(const SentencePiece& piece) {
  if (piece.type != PieceType::byte || piece.text.size() != 6) return -1;
  for (int byte = 0; byte < 256; ++byte) {
    if (piece.text == fmt::format("<0x{:02X}>", byte)) return byte;
  }
  return -1;
}

Vocabulary vocabulary_of(const SentencePieces& pieces) {
  Vocabulary vocabulary;
  for (size_t id = 0; id < pieces.list.size(); ++id)
    vocabulary.add(static_cast<int32_t>(id), pieces.list[id].text);
  return vocabulary;
}

// What both have: the types, the unknown piece and the bytes.
class PieceModel : public TokenModel {
 public:
  explicit PieceModel(const SentencePieces& pieces)
      : TokenModel(vocabulary_of(pieces)), byte_fallback_(pieces.byte_fallback) {
    for (size_t id = 0; id < pieces.list.size(); ++id) {
      const SentencePiece& piece = pieces.list[id];
      types_.push_back(piece.type);
      scores_.push_back(piece.score);
      if (piece.type == PieceType::unknown) unknown_ = static_cast<int32_t>(id);
      if (piece.type == PieceType::user_defined) user_defined_.add(piece.text, static_cast<int32_t>(id));
      if (const int byte = byte_of(piece); byte >= 0) byte_ids_[byte] = static_cast<int32_t>(id);
    }
  }

  uint64_t fingerprint() const override {
    Hash hash;
    for (const PieceType type : types_) hash.add(static_cast<uint64_t>(type));
    for (const float score : scores_) hash.add(uint64_t{std::bit_cast<uint32_t>(score)});
    return hash.value();
  }

 protected:
  PieceType type(int32_t id) const { return types_[static_cast<size_t>(id)]; }
  float score(int32_t id) const { return scores_[static_cast<size_t>(id)]; }

  // Adds the piece of text [begin, end). Unknown ones in a row are one, from place `first` of `out` on.
  void put(std::string_view text, uint32_t begin, uint32_t end, int32_t id, size_t first,
           std::vector<ModelToken>& out) const {
    if (id != unknown_) {
      out.push_back({id, begin, end, false});
    } else if (byte_fallback_) {
      for (uint32_t i = begin; i < end; ++i)
        out.push_back({byte_ids_[static_cast<unsigned char>(text[i])], begin, end, false});
    } else if (out.size() > first && out.back().id == unknown_) {
      out.back().end = end;
    } else {
      out.push_back({id, begin, end, true});
    }
  }

  // "sentencepiece": what a file needs beyond its vocabulary.
  std::string types_json() const {
    std::string digits;
    for (const PieceType type : types_) digits += static_cast<char>('0' + static_cast<int>(type));
    return fmt::format("\"types\": \"{}\"", digits);
  }

  std::vector<PieceType> types_;
  std::vector<float> scores_;
  int32_t unknown_ = -1;
  bool byte_fallback_;
  int32_t byte_ids_[256];
  ByteTrie user_defined_;
};

class UnigramPieces : public PieceModel {
 public:
  explicit UnigramPieces(const SentencePieces& pieces) : PieceModel(pieces), wide_(pieces.wide_scores) {
    float least = std::numeric_limits<float>::max();
    for (size_t id = 0; id < types_.size(); ++id) {
      if (types_[id] == PieceType::normal) least = std::min(least, scores_[id]);
      if (is_in_text(types_[id])) trie_.add(pieces.list[id].text, static_cast<int32_t>(id));
    }
    unknown_score_ = least - kUnknownPenalty;
  }

  void encode(std::string_view piece, std::vector<ModelToken>& out) const override {
    thread_local std::vector<Best> best;
    thread_local std::vector<Best> way;  // from the end; score: where the piece ends
    find_best(piece, best);
    way.clear();
    for (size_t end = piece.size(); end > 0; end = best[end].begin)
      way.push_back({static_cast<double>(end), best[end].begin, best[end].id});
    const size_t first = out.size();
    for (size_t i = way.size(); i-- > 0;)
      put(piece, way[i].begin, static_cast<uint32_t>(way[i].score), way[i].id, first, out);
  }

  std::string kind() const override { return "SentencePiece Unigram"; }
  std::string options() const override {
    OrderedJson options = {{"type", "Unigram"}, {"unk_id", nullptr}, {"byte_fallback", byte_fallback_}};
    if (unknown_ >= 0) options["unk_id"] = unknown_;
    return dump_json(options);
  }
  std::string contents() const override {
    std::string text = "\"vocab\": [";
    for (size_t id = 0; id < scores_.size(); ++id) {
      text += fmt::format("{}      [{}, {}]", id == 0 ? "\n" : ",\n",
                          quote_json(vocabulary().token(static_cast<int32_t>(id))), double{scores_[id]});
    }
    return text +
           fmt::format("\n    ],\n    \"sentencepiece\": {{\"wide_scores\": {}, {}}}", wide_, types_json());
  }

 private:
  struct Best {
    double score;
    uint32_t begin;
    int32_t id;
  };
  static constexpr uint32_t kUnreached = ~0u;

  // Sums as the package rounds them: of ways that differ in the last bit only, its choice counts.
  double sum(double a, double b) const { return wide_ ? a + b : double{static_cast<float>(a + b)}; }

  double score_of(int32_t id, size_t length) const {
    if (type(id) != PieceType::user_defined) return score(id);
    return double{static_cast<float>(0.1 * static_cast<double>(length - 1))};
  }

  // best[i]: the most probable way to the first i bytes, by its last piece. Of equals the one found first.
  void find_best(std::string_view piece, std::vector<Best>& best) const {
    best.assign(piece.size() + 1, {0, kUnreached, 0});
    size_t frontier = 0;
    for (size_t i = 0; i < piece.size();) {
      size_t next = i;
      next_code_point(piece, next);
      if (!wide_ && std::abs(best[i].score) > kFarScore) {
        const double offset = best[i].score;
        for (size_t j = i; j <= frontier; ++j) {
          if (j == i || best[j].begin != kUnreached) best[j].score = sum(best[j].score, -offset);
        }
      }
      const double before = best[i].score;
      const auto offer = [&](size_t end, double score, int32_t id) {
        frontier = std::max(frontier, end);
        const double reached = sum(score, before);
        if (best[end].begin == kUnreached || reached > best[end].score)
          best[end] = {reached, static_cast<uint32_t>(i), id};
      };
      bool single = false;
      uint32_t node = ByteTrie::kRoot;
      for (size_t end = i; end < piece.size();) {
        node = trie_.step(node, static_cast<unsigned char>(piece[end]));
        if (node == ByteTrie::kNone) break;
        ++end;
        const int32_t id = trie_.value(node);
        if (id < 0 || type(id) == PieceType::unused) continue;
        offer(end, score_of(id, end - i), id);
        single = single || end == next;
      }
      if (!single) offer(next, unknown_score_, unknown_);
      i = next;
    }
  }

  bool wide_;
  float unknown_score_;
  ByteTrie trie_;
};

class BpePieces : public PieceModel {
 public:
  explicit BpePieces(const SentencePieces& pieces)
      : PieceModel(pieces), joins_(pieces.kind == SentencePieces::Kind::bpe) {
    // An unused piece falls back into what was last seen of it anywhere in the text.
    if (std::find(types_.begin(), types_.end(), PieceType::unused) == types_.end()) cut_at_marks();
  }

  void encode(std::string_view piece, std::vector<ModelToken>& out) const override {
    thread_local Work work;
    work.start(piece);
    cut(work);
    if (joins_) join(work);
    const size_t first = out.size();
    for (size_t i = 0; i < work.symbols.size(); i = work.symbols[i].next)
      take(work, work.symbols[i].begin, work.symbols[i].end, 0, first, out);
  }

  std::string kind() const override { return joins_ ? "SentencePiece BPE" : "SentencePiece characters"; }
  std::string options() const override {
    OrderedJson options = {{"type", "BPE"},
                           {"dropout", nullptr},
                           {"unk_token", nullptr},
                           {"continuing_subword_prefix", nullptr},
                           {"end_of_word_suffix", nullptr},
                           {"fuse_unk", true},
                           {"byte_fallback", byte_fallback_},
                           {"ignore_merges", false}};
    if (unknown_ >= 0) options["unk_token"] = vocabulary().token(unknown_);
    return dump_json(options);
  }
  std::string contents() const override {
    std::string text = "\"vocab\": " + vocabulary_json(vocabulary()) + ",\n    \"merges\": [";
    const char* separator = "\n";
    for (const auto& [left, right] : merges()) {
      text += fmt::format("{}      [{}, {}]", separator, quote_json(left), quote_json(right));
      separator = ",\n";
    }
    text += fmt::format("\n    ],\n    \"sentencepiece\": {{\"joins\": {}, {}, \"scores\": [", joins_,
                        types_json());
    for (size_t id = 0; id < scores_.size(); ++id)
      text += fmt::format("{}{}", id == 0 ? "" : ", ", double{scores_[id]});
    return text + "]}";
  }

 private:
  struct Symbol {
    uint32_t begin, end;  // begin == end once joined to the one before
    uint32_t previous, next;
    bool frozen;
  };
  struct Pair {
    int32_t order;  // by score
    uint32_t left, right, size;
    bool operator<(const Pair& o) const { return order != o.order ? order < o.order : left > o.left; }
  };
  struct Work {
    std::string_view text;
    std::vector<Symbol> symbols;
    std::priority_queue<Pair> pairs;
    std::unordered_map<std::string_view, uint32_t> unused;  // where the left half of one ends in it
    void start(std::string_view of) {
      text = of;
      symbols.clear();
      unused.clear();
    }
  };
  // Its order as an integer is that of the floats, -0 before 0.
  static int32_t order_of(float score) {
    const auto bits = std::bit_cast<int32_t>(score);
    return bits < 0 ? bits ^ 0x7FFFFFFF : bits;
  }

  // User-defined pieces, longest first, and characters.
  void cut(Work& work) const {
    for (size_t i = 0; i < work.text.size();) {
      const size_t begin = i;
      const size_t found = user_defined_.longest(work.text.substr(i)).length;
      if (found > 0) {
        i += found;
      } else {
        next_code_point(work.text, i);
      }
      const auto place = static_cast<uint32_t>(work.symbols.size());
      work.symbols.push_back(
          {static_cast<uint32_t>(begin), static_cast<uint32_t>(i), place - 1, place + 1, found > 0});
    }
  }

  void consider(Work& work, uint32_t left, uint32_t right) const {
    if (left >= work.symbols.size() || right >= work.symbols.size()) return;
    const Symbol &a = work.symbols[left], &b = work.symbols[right];
    if (a.frozen || b.frozen) return;
    const std::string_view joined = work.text.substr(a.begin, b.end - a.begin);
    const int32_t id = vocabulary().find(joined);
    if (id < 0 || !is_in_text(type(id))) return;
    work.pairs.push({order_of(score(id)), left, right, b.end - a.begin});
    if (type(id) == PieceType::unused) work.unused[joined] = a.end - a.begin;
  }

  void join(Work& work) const {
    for (uint32_t i = 0; i + 1 < work.symbols.size(); ++i) consider(work, i, i + 1);
    while (!work.pairs.empty()) {
      const Pair top = work.pairs.top();
      work.pairs.pop();
      Symbol &left = work.symbols[top.left], &right = work.symbols[top.right];
      if (left.begin == left.end || right.begin == right.end || right.end - left.begin != top.size ||
          left.next != top.right)
        continue;
      left.end = right.end;
      left.next = right.next;
      right.begin = right.end;
      if (left.next < work.symbols.size()) work.symbols[left.next].previous = top.left;
      consider(work, left.previous, top.left);
      consider(work, top.left, left.next);
    }
  }

  // An unused piece falls back into the two that it was last seen as.
  void take(const Work& work, uint32_t begin, uint32_t end, int depth, size_t first,
            std::vector<ModelToken>& out) const {
    const std::string_view piece = work.text.substr(begin, end - begin);
    int32_t id = vocabulary().find(piece);
    if (id >= 0 && !is_in_text(type(id))) id = -1;
    if (id >= 0 && type(id) == PieceType::unused && depth <= kDeepestUnused) {
      const auto halves = work.unused.find(piece);
      if (halves != work.unused.end()) {
        take(work, begin, begin + halves->second, depth + 1, first, out);
        take(work, begin + halves->second, end, depth + 1, first, out);
        return;
      }
      id = -1;
    }
    put(work.text, begin, end, id < 0 ? unknown_ : id, first, out);
  }

  // For other programs: every way to join two pieces to a third, the best scores first.
  std::vector<std::pair<std::string, std::string>> merges() const {
    std::vector<std::pair<std::string, std::string>> result;
    if (!joins_) return result;
    std::vector<int32_t> ids;
    for (size_t id = 0; id < types_.size(); ++id) {
      if (types_[id] == PieceType::normal) ids.push_back(static_cast<int32_t>(id));
    }
    std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) { return score(a) > score(b); });
    const auto is_normal = [&](std::string_view text) {
      const int32_t id = vocabulary().find(text);
      return id >= 0 && type(id) == PieceType::normal;
    };
    for (const int32_t id : ids) {
      const std::string& token = vocabulary().token(id);
      for (size_t i = 1; i < token.size(); ++i) {
        const std::string_view left = std::string_view(token).substr(0, i), right = token.c_str() + i;
        if ((token[i] & 0xC0) != 0x80 && is_normal(left) && is_normal(right))
          result.emplace_back(left, right);
      }
    }
    return result;
  }

  bool joins_;
};

class Checker {
 public:
  Checker(const SentencePieces& pieces, const std::string& name) : pieces_(pieces), name_(name) {}

  void check() {
    if (pieces_.list.empty()) fail("there are no pieces");
    Vocabulary in_text, reserved;
    for (size_t id = 0; id < pieces_.list.size(); ++id) {
      const SentencePiece& piece = pieces_.list[id];
      const auto wrong = [&](const std::string& what) {
        fail(fmt::format("piece {} ({}) {}", id, quote_json(piece.text.substr(0, 60)), what));
      };
      if (piece.text.empty()) wrong("is empty");
      if (piece.text.size() >= kLongestPiece) wrong(fmt::format("has {} bytes", piece.text.size()));
      if (utf8_fault(piece.text) != kUtf8Valid) wrong("is not UTF-8");
      if (!std::isfinite(piece.score)) wrong("has a score that is no number");
      // In BPE a character may not stand for two pieces; a unigram model looks for some of them only. One of
      // characters is saved as BPE is, where no piece can stand twice.
      const bool apart = pieces_.kind == SentencePieces::Kind::unigram && !is_in_text(piece.type);
      Vocabulary& known = apart ? reserved : in_text;
      if (const int32_t other = known.find(piece.text); other >= 0)
        wrong(fmt::format("is piece {} too", other));
      known.add(static_cast<int32_t>(id), piece.text);
      const int byte = byte_of(piece);
      if (piece.type == PieceType::byte && byte < 0) wrong("is no byte such as <0x0A>");
      if (byte >= 0) bytes_[static_cast<size_t>(byte)] = true;
      unknown_ += piece.type == PieceType::unknown;
      if (unknown_ > 1) wrong("is a second unknown piece");
    }
    if (unknown_ == 0 && !pieces_.byte_fallback) fail("none of the pieces is the unknown one");
    for (int byte = 0; pieces_.byte_fallback && byte < 256; ++byte) {
      if (!bytes_[static_cast<size_t>(byte)])
        fail(fmt::format("the piece <0x{:02X}> is missing, which unknown characters fall back to", byte));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::file, fmt::format("{}: {}", name_, what));
  }
  const SentencePieces& pieces_;
  const std::string& name_;
  int unknown_ = 0;
  std::array<bool, 256> bytes_{};
};

}  // namespace

std::unique_ptr<TokenModel> make_sentencepiece(const SentencePieces& pieces, const std::string& name) {
  Checker(pieces, name).check();
  if (pieces.kind == SentencePieces::Kind::unigram) return std::make_unique<UnigramPieces>(pieces);
  return std::make_unique<BpePieces>(pieces);
}

std::unique_ptr<TokenModel> read_sentencepiece_model(const JsonAt& json) {
  const JsonAt own = json.object("sentencepiece");
  const std::string types = own.text("types");
  SentencePieces pieces;
  pieces.byte_fallback = json.flag("byte_fallback", false);
  pieces.list.resize(types.size());
  for (size_t id = 0; id < types.size(); ++id) {
    if (types[id] < '1' || types[id] > '6') own.wrong("types", "digits from 1 to 6");
    pieces.list[id].type = static_cast<PieceType>(types[id] - '0');
  }
  const bool unigram = json.text("type") == "Unigram";
  const JsonAt scores = unigram ? json.list("vocab") : own.list("scores");
  if (scores.size() != types.size())
    scores.malformed(fmt::format("{} scores of {} pieces", scores.size(), types.size()));
  for (size_t id = 0; id < types.size(); ++id) {
    const Json& entry = scores.value()[id];
    if (unigram && (!entry.is_array() || entry.size() != 2 || !entry[0].is_string()))
      scores.item(id).malformed("expected a piece and its score");
    const Json& score = unigram ? entry[1] : entry;
    if (!score.is_number()) scores.item(id).malformed("expected a score");
    pieces.list[id].score = score.get<float>();
    if (unigram) pieces.list[id].text = entry[0].get<std::string>();
  }
  if (unigram) {
    pieces.wide_scores = own.flag("wide_scores");
  } else {
    pieces.kind = own.flag("joins") ? SentencePieces::Kind::bpe : SentencePieces::Kind::characters;
    const Vocabulary vocabulary = read_vocabulary(json);
    for (size_t id = 0; id < types.size(); ++id)
      pieces.list[id].text = vocabulary.token(static_cast<int32_t>(id));
  }
  return make_sentencepiece(pieces, json.file() + ": " + json.path());
}

}  // namespace plumb
