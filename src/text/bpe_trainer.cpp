#include "text/bpe_trainer.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "base/check.h"

namespace plumb {
namespace {

class Learner {
 public:
  Learner(SymbolWords words, std::vector<std::string>& tokens, const BpeLearning& options)
      : options_(options),
        symbols_(std::move(words.symbols)),
        words_(std::move(words.words)),
        tokens_(tokens),
        lengths_(tokens.size(), 1) {
    for (size_t id = 0; id < tokens_.size(); ++id) id_of_[tokens_[id]] = static_cast<int32_t>(id);
    for (uint32_t w = 0; w < words_.size(); ++w) {
      const int32_t* symbol = symbols_.data() + words_[w].begin;
      for (uint32_t i = 0; i + 1 < words_[w].length; ++i)
        change(symbol[i], symbol[i + 1], words_[w].count, w);
    }
    push_grown();
  }

  std::vector<BpeMerge> run() {
    std::vector<BpeMerge> merges;
    const int64_t least = std::max<int64_t>(1, options_.min_count);
    while (tokens_.size() < options_.most_tokens && !heap_.empty()) {
      const Candidate top = heap_.top();
      heap_.pop();
      const auto place = pairs_.find(top.pair);
      if (place == pairs_.end()) continue;     // merged already
      if (place->second.count != top.count) {  // it became rarer since it was pushed
        if (place->second.count > 0) heap_.push({place->second.count, top.pair});
        continue;
      }
      if (top.count < least) break;
      if (spells_special(top.pair)) {
        pairs_.erase(place);
        continue;
      }
      merges.push_back(learn(top.pair));
      apply(top.pair);
      // A merge that spells an old token again can bring back pairs that were merged before: encoding merges
      // those at once.
      for (size_t i = 0; i < grown_.size(); ++i) {
        if (learned_.contains(grown_[i])) apply(uint64_t{grown_[i]});
      }
      push_grown();
      if (options_.progress && merges.size() % 64 == 0) options_.progress(tokens_.size());
    }
    return merges;
  }

 private:
  struct Pair {
    int64_t count = 0;
    std::vector<uint32_t> words;  // where it occurs, or did; with repeats
  };
  struct Candidate {
    int64_t count;
    uint64_t pair;
    bool operator<(const Candidate& o) const { return count != o.count ? count < o.count : pair > o.pair; }
  };

  std::string spelling(uint64_t pair) const {
    return tokens_[pair >> 32] + tokens_[pair & 0xFFFFFFFF].substr(options_.prefix);
  }

  bool spells_special(uint64_t pair) const {
    const auto known = id_of_.find(spelling(pair));
    return known != id_of_.end() && known->second < options_.specials;
  }

  BpeMerge learn(uint64_t pair) {
    const auto left = static_cast<int32_t>(pair >> 32), right = static_cast<int32_t>(pair & 0xFFFFFFFF);
    const auto [known, fresh] = id_of_.emplace(spelling(pair), static_cast<int32_t>(tokens_.size()));
    if (fresh) {
      tokens_.push_back(known->first);
      lengths_.push_back(lengths_[static_cast<size_t>(left)] + lengths_[static_cast<size_t>(right)]);
    }
    learned_[pair] = known->second;
    return {left, right, known->second};
  }

  void change(int32_t left, int32_t right, int64_t by, uint32_t word) {
    const uint64_t key = static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
    if (key == merging_) return;  // all of it goes
    if (options_.longest > 0 &&
        lengths_[static_cast<size_t>(left)] + lengths_[static_cast<size_t>(right)] > options_.longest)
      return;
    Pair& pair = pairs_[key];
    pair.count += by;
    if (by < 0) return;
    if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
    grown_.push_back(key);
  }

  void apply(uint64_t pair) {
    const auto place = pairs_.find(pair);
    if (place == pairs_.end()) return;
    std::vector<uint32_t> where = std::move(place->second.words);
    pairs_.erase(place);
    std::sort(where.begin(), where.end());
    where.erase(std::unique(where.begin(), where.end()), where.end());
    const BpeMerge merge{static_cast<int32_t>(pair >> 32), static_cast<int32_t>(pair & 0xFFFFFFFF),
                         learned_[pair]};
    merging_ = pair;
    for (const uint32_t w : where) apply(merge, w);
    merging_ = ~0ull;
  }

  // Joins every occurrence in one word, left to right, and keeps the counts of its neighbours.
  void apply(const BpeMerge& merge, uint32_t w) {
    SymbolWords::Word& word = words_[w];
    int32_t* symbol = symbols_.data() + word.begin;
    uint32_t out = 0;
    for (uint32_t in = 0; in < word.length; ++in) {
      if (in + 1 == word.length || symbol[in] != merge.left || symbol[in + 1] != merge.right) {
        symbol[out++] = symbol[in];
        continue;
      }
      if (out > 0) {
        change(symbol[out - 1], merge.left, -word.count, w);
        change(symbol[out - 1], merge.joined, word.count, w);
      }
      if (in + 2 < word.length) {
        change(merge.right, symbol[in + 2], -word.count, w);
        change(merge.joined, symbol[in + 2], word.count, w);
      }
      symbol[out++] = merge.joined;
      ++in;
    }
    word.length = out;
  }

  void push_grown() {
    std::sort(grown_.begin(), grown_.end());
    grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
    for (const uint64_t key : grown_) {
      const auto place = pairs_.find(key);
      if (place != pairs_.end() && place->second.count > 0) heap_.push({place->second.count, key});
    }
    grown_.clear();
  }

  const BpeLearning& options_;
  std::vector<int32_t> symbols_;  // of all words
  std::vector<SymbolWords::Word> words_;
  std::vector<std::string>& tokens_;
  std::vector<uint32_t> lengths_;  // of the tokens, in symbols
  std::unordered_map<uint64_t, Pair> pairs_;
  std::unordered_map<uint64_t, int32_t> learned_;  // what each merged pair became
  uint64_t merging_ = ~0ull;                       // the pair that is being joined
  std::vector<uint64_t> grown_;
  std::priority_queue<Candidate> heap_;
  std::unordered_map<std::string, int32_t> id_of_;
};

}  // namespace

void SymbolWords::add(const std::vector<int32_t>& word, int64_t count) {
  if (word.size() < 2) return;  // nothing to merge
  words.push_back({symbols.size(), static_cast<uint32_t>(word.size()), count});
  symbols.insert(symbols.end(), word.begin(), word.end());
}

std::vector<BpeMerge> learn_merges(SymbolWords words, std::vector<std::string>& tokens,
                                   const BpeLearning& options) {
  return Learner(std::move(words), tokens, options).run();
}

}  // namespace plumb
