// How fast tokenizer files are loaded, and texts encoded with them in one thread and in two.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/machine.h"
#include "bench/bench.h"
#include "plumb/threads.h"
#include "plumb/tokenizer.h"

namespace plumb::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 3;
constexpr size_t kDocument = 10'000;  // bytes

// Documents of whole lines.
std::vector<TextInput> documents_of(std::string_view text) {
  std::vector<TextInput> documents;
  documents.reserve(text.size() / kDocument + 1);
  while (!text.empty()) {
    const size_t line = text.find('\n', std::min(text.size() - 1, kDocument));
    const size_t end = line == std::string_view::npos ? text.size() : line + 1;
    documents.push_back({text.substr(0, end)});
    text.remove_prefix(end);
  }
  return documents;
}

// Of the fastest of some calls.
double seconds_of(const std::function<void()>& f) {
  double best = 0;
  for (int i = 0; i < kRounds; ++i) {
    const auto start = Clock::now();
    f();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = i == 0 ? seconds : std::min(best, seconds);
  }
  return best;
}

std::string name_of(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

void bench_one(const std::string& file, const BenchFiles& files, const RowSink& row) {
  forget_peak_resident();
  const double loading = seconds_of([&] { Tokenizer::load(file); });
  const Tokenizer tokenizer = Tokenizer::load(file);
  row({.name = "load " + name_of(file),
       .shape = tokenizer.describe(),
       .rate = 1e3 * loading,
       .unit = "ms",
       .resident_gb = static_cast<double>(peak_resident_bytes()) * 1e-9});
  for (const std::string& path : files.texts) {
    const std::string text = read_file(path);
    const std::vector<TextInput> documents = documents_of(text);
    for (const int count : {1, 2}) {
      set_threads(count);
      forget_peak_resident();
      const double seconds = seconds_of([&] { tokenizer.encode_batch(documents, {.add_special = false}); });
      row({.name = "encode " + name_of(file),
           .shape = fmt::format("{}, {:.1f} MB, {} thread{}", name_of(path),
                                static_cast<double>(text.size()) * 1e-6, count, count == 1 ? "" : "s"),
           .rate = static_cast<double>(text.size()) / seconds * 1e-6,
           .unit = "MB/s",
           .resident_gb = static_cast<double>(peak_resident_bytes()) * 1e-9});
    }
  }
}

}  // namespace

void bench_tokenizers(const BenchFiles& files, const RowSink& row) {
  const int before = threads();
  for (const std::string& file : files.tokenizers) bench_one(file, files, row);
  set_threads(before);
}

}  // namespace plumb::bench
