#include "text/word_counts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <unordered_map>

#include "base/log.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "plumb/error.h"
#include "plumb/signal.h"
#include "plumb/threads.h"
#include "text/text_files.h"

namespace plumb {
namespace {

constexpr size_t kPiece = 1 << 20;

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

uint64_t memory_of(size_t word) {
  return word + 64;  // as a node of a table, about
}

struct Counts {
  std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>> table;
  uint64_t memory = 0;

  void add(std::string_view word, int64_t count) {
    const auto place = table.find(word);
    if (place != table.end()) {
      place->second += count;
    } else {
      table.emplace(word, count);
      memory += memory_of(word.size());
    }
  }
};

// Sorted words in a file without a name.
class Run {
 public:
  explicit Run(const std::vector<WordCount>& words) {
    std::string name = (std::filesystem::temp_directory_path() / "plumb-words-XXXXXX").string();
    const int descriptor = mkstemp(name.data());
    if (descriptor >= 0) unlink(name.c_str());
    file_.reset(descriptor < 0 ? nullptr : fdopen(descriptor, "w+b"));
    if (!file_) fail("make");
    for (const WordCount& word : words) {
      const auto size = static_cast<uint32_t>(word.word.size());
      if (std::fwrite(&size, sizeof size, 1, file_.get()) != 1 ||
          std::fwrite(&word.count, sizeof word.count, 1, file_.get()) != 1 ||
          std::fwrite(word.word.data(), 1, size, file_.get()) != size)
        fail("write");
    }
    if (std::fflush(file_.get()) != 0) fail("write");
  }

  void rewind() {
    std::rewind(file_.get());
    next();
  }
  bool ended() const { return ended_; }
  const WordCount& word() const { return word_; }
  void next() {
    uint32_t size = 0;
    ended_ = std::fread(&size, sizeof size, 1, file_.get()) != 1;
    if (ended_ && std::ferror(file_.get())) fail("read");
    if (ended_) return;
    word_.word.resize(size);
    if (std::fread(&word_.count, sizeof word_.count, 1, file_.get()) != 1 ||
        std::fread(word_.word.data(), 1, size, file_.get()) != size)
      fail("read");
  }

 private:
  [[noreturn]] static void fail(const char* what) {
    throw Error(ErrorKind::file,
                fmt::format("cannot {} a temporary file for word counts: {}", what, std::strerror(errno)));
  }
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  WordCount word_{"", 0};
  bool ended_ = false;
};

class Counter {
 public:
  Counter(const Tokenizer::Impl& tokenizer, uint64_t memory)
      : tokenizer_(tokenizer), memory_(memory), counts_(static_cast<size_t>(threads())) {}

  size_t at_once() const { return counts_.size() * 4; }

  void add(std::span<const std::string> texts) {
    parallel_for(texts.size(), [&](size_t i, size_t thread) {
      const Pieces pieces = tokenizer_.cut(texts[i], false, false);
      for (const Piece& piece : pieces.list) counts_[thread].add(pieces.view(piece), 1);
    });
    uint64_t used = 0;
    for (const Counts& counts : counts_) used += counts.memory;
    if (used > memory_) runs_.emplace_back(take_sorted());
  }

  std::vector<WordCount> finish() {
    if (runs_.empty()) {
      std::vector<WordCount> all = take_sorted();
      const int64_t least = least_count([&](const auto& each) {
        for (const WordCount& word : all) each(word);
      });
      std::erase_if(all, [&](const WordCount& word) { return word.count < least; });
      return all;
    }
    runs_.emplace_back(take_sorted());
    const int64_t least = least_count([&](const auto& each) { merge(each); });
    std::vector<WordCount> kept;
    merge([&](const WordCount& word) {
      if (word.count >= least) kept.push_back(word);
    });
    return kept;
  }

 private:
  std::vector<WordCount> take_sorted() {
    for (size_t i = 1; i < counts_.size(); ++i) {
      for (const auto& [word, count] : counts_[i].table) counts_[0].add(word, count);
      counts_[i] = {};
    }
    std::vector<WordCount> words;
    words.reserve(counts_[0].table.size());
    while (!counts_[0].table.empty()) {
      auto node = counts_[0].table.extract(counts_[0].table.begin());
      words.push_back({std::move(node.key()), node.mapped()});
    }
    counts_[0] = {};
    std::sort(words.begin(), words.end(),
              [](const WordCount& a, const WordCount& b) { return a.word < b.word; });
    return words;
  }

  // All words of the runs in order, each once.
  template <typename Each>
  void merge(const Each& each) {
    for (Run& run : runs_) run.rewind();
    const auto before = [](const Run* a, const Run* b) { return a->word().word > b->word().word; };
    std::vector<Run*> heap;
    for (Run& run : runs_)
      if (!run.ended()) heap.push_back(&run);
    std::make_heap(heap.begin(), heap.end(), before);
    WordCount word{"", 0};
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end(), before);
      Run& run = *heap.back();
      if (word.count > 0 && word.word != run.word().word) each(std::exchange(word, {"", 0}));
      word.word = run.word().word;
      word.count += run.word().count;
      run.next();
      if (run.ended()) {
        heap.pop_back();
      } else {
        std::push_heap(heap.begin(), heap.end(), before);
      }
    }
    if (word.count > 0) each(word);
  }

  // The least count with which a word still fits into the memory.
  template <typename All>
  int64_t least_count(const All& all) const {
    std::map<int64_t, uint64_t> memory, number;  // by count
    all([&](const WordCount& word) {
      memory[word.count] += memory_of(word.word.size());
      ++number[word.count];
    });
    uint64_t used = 0, left_out = 0;
    int64_t least = 1;
    for (auto one = memory.rbegin(); one != memory.rend(); ++one) {
      used += one->second;
      if (used <= memory_) continue;
      least = std::max(least, one->first + 1);
      left_out += number[one->first];
    }
    if (left_out > 0) {
      log_warning(
          fmt::format("{} different words seen fewer than {} times are left out: more do not fit into "
                      "the memory given",
                      left_out, least));
    }
    return least;
  }

  const Tokenizer::Impl& tokenizer_;
  uint64_t memory_;
  std::vector<Counts> counts_;  // by thread
  std::vector<Run> runs_;
};

}  // namespace

std::vector<WordCount> count_words(const std::vector<std::string>& paths, const Tokenizer::Impl& tokenizer,
                                   const WordCounting& options) {
  TextFiles files = list_text_files(paths);
  check_text_files(files);
  if (const std::string notice = skip_notice(files); !notice.empty()) log_info(notice);
  Counter counter(tokenizer, options.memory);
  std::optional<Progress> progress;
  if (options.show_progress) progress.emplace();
  uint64_t done = 0;
  std::vector<std::string> pieces(counter.at_once());
  for (const TextFile& file : files.files) {
    TextReader reader(file.path, kPiece);
    for (bool more = true; more;) {
      if (stop_requested()) throw Error(ErrorKind::interrupted, "stopped: nothing was saved");
      size_t filled = 0;
      while (filled < pieces.size() && (more = reader.next(pieces[filled]))) done += pieces[filled++].size();
      counter.add(std::span(pieces).first(filled));
      if (progress && progress->due())
        progress->show("counting words: " + progress_text(done, files.bytes, progress->seconds()));
    }
  }
  std::vector<WordCount> words = counter.finish();
  if (progress) {
    progress->finish(fmt::format("{} of text, {} different words, {}",
                                 format_bytes(static_cast<double>(done)), words.size(),
                                 format_duration(progress->seconds())));
  }
  return words;
}

}  // namespace plumb
