#include "text/unigram_trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "base/parallel.h"
#include "base/utf8.h"
#include "text/byte_trie.h"

namespace plumb {
namespace {

constexpr size_t kParts = 16;  // of the words: what is summed over them does not depend on threads
constexpr int kSteps = 2;      // of EM between two cuts
constexpr double kShrink = 0.75, kSpare = 1.1, kLeastCount = 0.5;

// Bernardo's algorithm AS 103: recurrence up to where the asymptotic series is good.
double digamma(double x) {
  double sum = 0;
  for (; x < 7; ++x) sum -= 1 / x;
  const double y = 1 / (x * x);
  return sum + std::log(x) - 0.5 / x - y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y / 240)));
}

double log_add(double a, double b) {
  if (a < b) std::swap(a, b);
  return b == -std::numeric_limits<double>::infinity() ? a : a + std::log1p(std::exp(b - a));
}

bool starts_character(char c) {
  return (c & 0xC0) != 0x80;
}

// A word cut into the parts between characters that are not required.
std::vector<WordCount> known_parts(const std::vector<WordCount>& words,
                                   const std::vector<std::string>& required) {
  const std::unordered_set<std::string_view> known(required.begin(), required.end());
  std::vector<WordCount> parts;
  parts.reserve(words.size());
  for (const WordCount& word : words) {
    const std::string_view text = word.word;
    size_t begin = 0;
    const auto take = [&](size_t end) {
      if (begin < end) parts.push_back({std::string(text.substr(begin, end - begin)), word.count});
    };
    for (size_t i = 0; i < text.size();) {
      const size_t at = i;
      next_code_point(text, i);
      if (known.contains(text.substr(at, i - at))) continue;
      take(at);
      begin = i;
    }
    take(text.size());
  }
  return parts;
}

// The substrings of two characters and more that occur twice or more, by what they would save.
class Seeds {
 public:
  Seeds(const std::vector<WordCount>& words, const UnigramLearning& options) : options_(options) {
    size_t bytes = 0;
    for (const WordCount& word : words) bytes += word.word.size();
    suffixes_.reserve(bytes);
    for (const WordCount& word : words) {
      const std::string_view text = word.word;
      for (size_t i = 0; i < text.size(); ++i) {
        if (starts_character(text[i])) suffixes_.push_back({head(text.substr(i)), word.count});
      }
    }
    std::sort(suffixes_.begin(), suffixes_.end(),
              [](const Suffix& a, const Suffix& b) { return a.text < b.text; });
  }

  // Neighbours in the sorted suffixes that share their first bytes are an interval, and intervals are nested.
  std::vector<UnigramPiece> take() {
    struct Interval {
      size_t length;  // bytes shared
      int64_t count;
    };
    std::vector<Interval> open;
    std::vector<UnigramPiece> seeds;
    for (size_t i = 0; i < suffixes_.size(); ++i) {
      const auto& [text, count] = suffixes_[i];
      const size_t shared = i + 1 < suffixes_.size() ? common(text, suffixes_[i + 1].text) : 0;
      if (text.size() > shared && (open.empty() || text.size() > open.back().length))
        offer(text, count, seeds);
      int64_t inner = count;
      while (!open.empty() && open.back().length > shared) {
        inner += open.back().count;
        offer(text.substr(0, open.back().length), inner, seeds);
        open.pop_back();
      }
      if (shared == 0) continue;
      if (open.empty() || open.back().length < shared) open.push_back({shared, 0});
      open.back().count += inner;
    }
    const size_t most = std::min(seeds.size(), options_.seeds);
    std::partial_sort(seeds.begin(), seeds.begin() + static_cast<ptrdiff_t>(most), seeds.end(),
                      [](const UnigramPiece& a, const UnigramPiece& b) {
                        return a.score != b.score ? a.score > b.score : a.text < b.text;
                      });
    seeds.resize(most);
    return seeds;
  }

 private:
  struct Suffix {
    std::string_view text;  // as far as a piece can reach
    int64_t count;
  };

  std::string_view head(std::string_view text) const {
    size_t end = 0;
    for (size_t n = 0; n < options_.longest && end < text.size(); ++n) next_code_point(text, end);
    return text.substr(0, end);
  }

  // Bytes, of whole characters.
  static size_t common(std::string_view a, std::string_view b) {
    size_t n = 0;
    while (n < std::min(a.size(), b.size()) && a[n] == b[n]) ++n;
    while (n > 0 && ((n < a.size() && !starts_character(a[n])) || (n < b.size() && !starts_character(b[n]))))
      --n;
    return n;
  }

  static void offer(std::string_view text, int64_t count, std::vector<UnigramPiece>& seeds) {
    const auto characters = std::count_if(text.begin(), text.end(), starts_character);
    if (characters > 1 && count > 1)
      seeds.push_back({std::string(text), static_cast<double>(count) * static_cast<double>(characters)});
  }

  const UnigramLearning& options_;
  std::vector<Suffix> suffixes_;
};

class Learner {
 public:
  Learner(const std::vector<WordCount>& words, const UnigramLearning& options)
      : options_(options),
        words_(known_parts(words, options.required)),
        required_(options.required.begin(), options.required.end()) {
    pieces_ = Seeds(words_, options).take();
    std::unordered_map<std::string_view, int64_t> counts;
    for (const WordCount& word : words_) {
      const std::string_view text = word.word;
      for (size_t i = 0; i < text.size();) {
        const size_t at = i;
        next_code_point(text, i);
        counts[text.substr(at, i - at)] += word.count;
      }
    }
    for (const std::string& c : options.required)
      pieces_.push_back({c, static_cast<double>(std::max<int64_t>(1, counts[c]))});
    double sum = 0;
    for (const UnigramPiece& piece : pieces_) sum += piece.score;
    for (UnigramPiece& piece : pieces_) piece.score = std::log(piece.score / sum);
    index();
  }

  std::vector<UnigramPiece> run() {
    const auto aim = static_cast<size_t>(static_cast<double>(options_.pieces) * kSpare);
    while (true) {
      for (int step = 0; step < kSteps; ++step) {
        tell();
        maximize(expect());
      }
      if (pieces_.size() <= std::max(aim, required_.size())) break;
      if (!prune(aim)) break;
    }
    return finish();
  }

 private:
  struct Node {
    uint32_t begin, end;
    int32_t id;
  };
  struct Lattice {
    std::vector<Node> nodes;  // by begin
    std::vector<double> before, after;
    std::vector<Node> best;
    std::vector<double> score;
  };

  void tell() const {
    if (options_.progress) options_.progress(pieces_.size());
  }

  void index() {
    trie_ = ByteTrie();
    for (size_t id = 0; id < pieces_.size(); ++id) trie_.add(pieces_[id].text, static_cast<int32_t>(id));
  }

  double score(int32_t id) const { return pieces_[static_cast<size_t>(id)].score; }

  void find_nodes(std::string_view text, std::vector<Node>& nodes) const {
    nodes.clear();
    for (size_t i = 0; i < text.size(); ++i) {
      if (!starts_character(text[i])) continue;
      uint32_t node = ByteTrie::kRoot;
      for (size_t end = i; end < text.size();) {
        node = trie_.step(node, static_cast<unsigned char>(text[end++]));
        if (node == ByteTrie::kNone) break;
        if (trie_.value(node) >= 0)
          nodes.push_back({static_cast<uint32_t>(i), static_cast<uint32_t>(end), trie_.value(node)});
      }
    }
  }

  // Adds to `expected` how often each piece stands in the word, over all ways to cut it.
  void expect_word(const WordCount& word, Lattice& l, std::vector<double>& expected) const {
    constexpr double kNever = -std::numeric_limits<double>::infinity();
    find_nodes(word.word, l.nodes);
    l.before.assign(word.word.size() + 1, kNever);
    l.after.assign(word.word.size() + 1, kNever);
    l.before[0] = l.after[word.word.size()] = 0;
    for (const Node& n : l.nodes) l.before[n.end] = log_add(l.before[n.end], l.before[n.begin] + score(n.id));
    for (size_t i = l.nodes.size(); i-- > 0;) {
      const Node& n = l.nodes[i];
      l.after[n.begin] = log_add(l.after[n.begin], l.after[n.end] + score(n.id));
    }
    const double whole = l.after[0];
    for (const Node& n : l.nodes) {
      expected[static_cast<size_t>(n.id)] +=
          static_cast<double>(word.count) *
          std::exp(l.before[n.begin] + score(n.id) + l.after[n.end] - whole);
    }
  }

  // For each part of the words a list over the pieces, added up in the order of the parts.
  template <typename Each>
  std::vector<double> sum_over_words(const Each& each) const {
    std::vector<std::vector<double>> parts(kParts);
    parallel_for(kParts, [&](size_t part, size_t) {
      parts[part].assign(pieces_.size(), 0);
      Lattice lattice;
      const size_t end = (part + 1) * words_.size() / kParts;
      for (size_t w = part * words_.size() / kParts; w < end; ++w) each(w, lattice, parts[part]);
    });
    for (size_t part = 1; part < kParts; ++part) {
      for (size_t i = 0; i < parts[0].size(); ++i) parts[0][i] += parts[part][i];
    }
    return std::move(parts[0]);
  }

  std::vector<double> expect() const {
    return sum_over_words([&](size_t w, Lattice& lattice, std::vector<double>& expected) {
      expect_word(words_[w], lattice, expected);
    });
  }

  // The expectation of a logarithm under a Dirichlet prior that prefers few pieces, as digamma gives it.
  void maximize(const std::vector<double>& expected) {
    std::vector<UnigramPiece> kept;
    kept.reserve(pieces_.size());
    double sum = 0;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const bool required = required_.contains(pieces_[i].text);
      if (expected[i] < kLeastCount && !required) continue;
      kept.push_back({std::move(pieces_[i].text), std::max(expected[i], kLeastCount)});
      sum += kept.back().score;
    }
    const double log_sum = digamma(sum);
    for (UnigramPiece& piece : kept) piece.score = digamma(piece.score) - log_sum;
    pieces_ = std::move(kept);
    index();
  }

  // The most probable way to cut a text; without the piece that is the whole text where `proper`. Empty where
  // there is none.
  void best_path(std::string_view text, bool proper, Lattice& l) const {
    constexpr double kNever = -std::numeric_limits<double>::infinity();
    find_nodes(text, l.nodes);
    l.score.assign(text.size() + 1, kNever);
    l.best.assign(text.size() + 1, {0, 0, -1});
    l.score[0] = 0;
    for (const Node& n : l.nodes) {
      if (proper && n.begin == 0 && n.end == text.size()) continue;
      const double s = l.score[n.begin] + score(n.id);
      if (s <= l.score[n.end]) continue;
      l.score[n.end] = s;
      l.best[n.end] = n;
    }
    l.nodes.clear();
    if (l.score[text.size()] == kNever) return;
    for (size_t end = text.size(); end > 0; end = l.best[end].begin) l.nodes.push_back(l.best[end]);
  }

  // Leaves out the pieces whose loss would cost least: what the words that hold one would lose if its best
  // replacement stood there. False if nothing could go.
  bool prune(size_t aim) {
    const std::vector<double> used =
        sum_over_words([&](size_t w, Lattice& lattice, std::vector<double>& counts) {
          best_path(words_[w].word, false, lattice);
          for (const Node& n : lattice.nodes)
            counts[static_cast<size_t>(n.id)] += static_cast<double>(words_[w].count);
        });
    double sum = 0;
    for (const double count : used) sum += count;
    struct Loss {
      double loss;
      size_t id;
    };
    std::vector<Loss> losses;
    std::vector<bool> keep(pieces_.size());
    size_t kept = 0;
    Lattice lattice;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      keep[i] = required_.contains(pieces_[i].text);
      kept += keep[i];
      if (keep[i] || used[i] == 0) continue;
      best_path(pieces_[i].text, true, lattice);
      const double parts = static_cast<double>(lattice.nodes.size());
      const double log_alternative = std::log(sum + used[i] * (parts - 1));
      double alternative = 0;
      for (const Node& n : lattice.nodes)
        alternative += std::log(used[static_cast<size_t>(n.id)] + used[i]) - log_alternative;
      losses.push_back({used[i] / sum * (std::log(used[i]) - std::log(sum) - alternative), i});
    }
    const auto target = std::max(aim, static_cast<size_t>(kShrink * static_cast<double>(pieces_.size())));
    std::sort(losses.begin(), losses.end(),
              [](const Loss& a, const Loss& b) { return a.loss != b.loss ? a.loss > b.loss : a.id < b.id; });
    for (size_t i = 0; i < losses.size() && kept < target; ++i, ++kept) keep[losses[i].id] = true;
    if (kept == pieces_.size()) return false;
    std::vector<UnigramPiece> left;
    left.reserve(kept);
    for (size_t i = 0; i < pieces_.size(); ++i)
      if (keep[i]) left.push_back(std::move(pieces_[i]));
    pieces_ = std::move(left);
    index();
    return true;
  }

  std::vector<UnigramPiece> finish() {
    const auto by_score = [](const UnigramPiece& a, const UnigramPiece& b) {
      return a.score != b.score ? a.score > b.score : a.text < b.text;
    };
    std::stable_sort(pieces_.begin(), pieces_.end(), by_score);
    std::vector<UnigramPiece> result;
    result.reserve(options_.pieces);
    size_t room = options_.pieces - std::min(options_.pieces, required_.size());
    for (UnigramPiece& piece : pieces_) {
      const bool required = required_.contains(piece.text);
      if (!required && room == 0) continue;
      room -= required ? 0 : 1;
      result.push_back(std::move(piece));
    }
    return result;
  }

  const UnigramLearning& options_;
  std::vector<WordCount> words_;
  std::unordered_set<std::string> required_;
  std::vector<UnigramPiece> pieces_;
  ByteTrie trie_;
};

}  // namespace

std::vector<UnigramPiece> learn_unigram(const std::vector<WordCount>& words, const UnigramLearning& options) {
  return Learner(words, options).run();
}

}  // namespace plumb
