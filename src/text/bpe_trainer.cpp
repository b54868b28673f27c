#include "text/bpe_trainer.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "base/check.h"
#include "base/log.h"
#include "base/parallel.h"
#include "plumb/threads.h"
#include "text/byte_level.h"
#include "text/text_files.h"

namespace plumb {
namespace {

constexpr size_t kPiece = 1 << 20;

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using Counts = std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>>;

void count_piece(std::string_view text, Counts& counts) {
  ByteLevel().split(text, [&](std::string_view word) {
    const auto place = counts.find(word);
    if (place != counts.end()) {
      ++place->second;
    } else {
      counts.emplace(word, 1);
    }
  });
}

class Learner {
 public:
  Learner(const std::vector<WordCount>& words, const BpeLearning& options) : options_(options) {
    for (int byte = 0; byte < 256; ++byte) {
      const int32_t id = options.byte_ids[static_cast<size_t>(byte)];
      PLUMB_CHECK(id >= 0 && id < options.first_id);
      spelling_[id] = std::string(1, static_cast<char>(byte));
      id_of_[spelling_[id]] = id;
    }
    for (const WordCount& word : words) {
      if (word.word.size() < 2) continue;
      words_.push_back({symbols_.size(), static_cast<uint32_t>(word.word.size()), word.count});
      for (const char byte : word.word)
        symbols_.push_back(options.byte_ids[static_cast<unsigned char>(byte)]);
    }
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
    int32_t next_id = options_.first_id;
    while (next_id < options_.first_id + options_.most_merges && !heap_.empty()) {
      const Candidate top = heap_.top();
      heap_.pop();
      const auto place = pairs_.find(top.pair);
      if (place == pairs_.end()) continue;     // merged already
      if (place->second.count != top.count) {  // it became rarer since it was pushed
        if (place->second.count > 0) heap_.push({place->second.count, top.pair});
        continue;
      }
      if (top.count < least) break;
      const auto left = static_cast<int32_t>(top.pair >> 32),
                 right = static_cast<int32_t>(top.pair & 0xFFFFFFFF);
      const auto [known, fresh] = id_of_.emplace(spelling_[left] + spelling_[right], next_id);
      if (fresh) spelling_[next_id++] = known->first;
      merges.push_back({left, right, known->second});
      learned_[top.pair] = known->second;
      apply(top.pair);
      // A merge that spells an old token again can bring back pairs that were merged before: encoding merges
      // those at once.
      for (size_t i = 0; i < grown_.size(); ++i) {
        if (learned_.contains(grown_[i])) apply(uint64_t{grown_[i]});
      }
      push_grown();
      if (options_.progress && merges.size() % 64 == 0) {
        options_.progress(merges.size(), static_cast<uint64_t>(options_.most_merges));
      }
    }
    return merges;
  }

 private:
  struct Word {
    size_t begin;
    uint32_t length;
    int64_t count;
  };
  struct Pair {
    int64_t count = 0;
    std::vector<uint32_t> words;  // where it occurs, or did; with repeats
  };
  struct Candidate {
    int64_t count;
    uint64_t pair;
    bool operator<(const Candidate& o) const { return count != o.count ? count < o.count : pair > o.pair; }
  };

  void change(int32_t left, int32_t right, int64_t by, uint32_t word) {
    const uint64_t key = static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
    if (key == merging_) return;  // all of it goes
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
    Word& word = words_[w];
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
  std::vector<Word> words_;
  std::unordered_map<uint64_t, Pair> pairs_;
  std::unordered_map<uint64_t, int32_t> learned_;  // what each merged pair became
  uint64_t merging_ = ~0ull;                       // the pair that is being joined
  std::vector<uint64_t> grown_;
  std::priority_queue<Candidate> heap_;
  std::unordered_map<int32_t, std::string> spelling_;
  std::unordered_map<std::string, int32_t> id_of_;
};

}  // namespace

std::vector<WordCount> count_words(const std::vector<std::string>& paths, const TokenizerTraining& options) {
  TextFiles files = list_text_files(paths);
  check_text_files(files);
  if (const std::string notice = skip_notice(files); !notice.empty()) log_info(notice);
  std::vector<Counts> counts(static_cast<size_t>(threads()));
  uint64_t done = 0;
  std::vector<std::string> pieces(counts.size() * 4);
  for (const TextFile& file : files.files) {
    TextReader reader(file.path, kPiece);
    for (bool more = true; more;) {
      size_t filled = 0;
      while (filled < pieces.size() && (more = reader.next(pieces[filled]))) done += pieces[filled++].size();
      parallel_for(filled, [&](size_t i, size_t thread) { count_piece(pieces[i], counts[thread]); });
      if (options.progress) options.progress("counting words", done, files.bytes);
    }
  }
  for (size_t i = 1; i < counts.size(); ++i) {
    for (const auto& [word, count] : counts[i]) counts[0][word] += count;
    counts[i] = {};
  }
  std::vector<WordCount> words;
  words.reserve(counts[0].size());
  for (const auto& [word, count] : counts[0]) words.push_back({word, count});
  std::sort(words.begin(), words.end(),
            [](const WordCount& a, const WordCount& b) { return a.word < b.word; });
  return words;
}

std::vector<BpeMerge> learn_merges(const std::vector<WordCount>& words, const BpeLearning& options) {
  return Learner(words, options).run();
}

}  // namespace plumb
