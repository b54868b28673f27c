#include "bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/machine.h"
#include "kernels/gemm.h"
#include "plumb/error.h"
#include "plumb/suggest.h"
#include "tensor/memory.h"

namespace plumb {
namespace bench {
namespace {

constexpr int64_t kBatch = 4, kLength = 512, kPrompt = 512;

void train_f32(const RowSink& row) {
  row(bench_train_step(gpt2_124m(), Precision::f32, kBatch, kLength));
}
void train_bf16(const RowSink& row) {
  row(bench_train_step(gpt2_124m(), Precision::bf16, kBatch, kLength));
}

void norms(const RowSink& row) {
  for (const RowNorm kind : {RowNorm::layer, RowNorm::rms}) {
    for (const BenchRow& r : bench_residual_norm(kind)) row(r);
  }
}

void decode(const RowSink& row) {
  for (const DType weights : {DType::f32, DType::bf16}) {
    for (const BenchRow& r : bench_decode(gpt2_124m(), weights)) row(r);
  }
}

void prefill(const RowSink& row) {
  for (const DType weights : {DType::f32, DType::bf16}) {
    row(bench_prefill(gpt2_124m(), weights, kPrompt));
  }
}

struct Entry {
  BenchCase what;
  void (*run)(const RowSink& row);
  void (*run_on)(const BenchFiles& files, const RowSink& row) = nullptr;  // in place of `run`
};

constexpr Entry kEntries[] = {
    {{"train-f32", "training step of the 124 M GPT-2 shape, 4 x 512 tokens, AdamW, clipping"}, train_f32},
    {{"train-bf16", "the same with bf16 products and f32 sums"}, train_bf16},
    {{"norm", "residual add and norm in one pass, forward and backward"}, norms},
    {{"decode", "one token at a time with that model, weights in f32 and bf16"}, decode},
    {{"prefill", "a prompt of 512 tokens through that model"}, prefill},
    {{"length", "training cost per token from 128 to 8192 tokens"}, bench_length},
    {{"depth", "training cost per token from 2 to 96 layers"}, bench_depth},
    {{"probe", "what watching a run costs"}, bench_probe},
    {{"deep", "50 steps of a 1,000-layer DeepNorm decoder"}, bench_deep},
    {{"tokenizer", "loading of tokenizer files and encoding of texts (--tokenizer, --text)", true},
     nullptr,
     bench_tokenizers},
};

constexpr auto kCases = [] {
  std::array<BenchCase, std::size(kEntries)> cases{};
  for (size_t i = 0; i < cases.size(); ++i) cases[i] = kEntries[i].what;
  return cases;
}();

}  // namespace
}  // namespace bench

std::span<const BenchCase> bench_cases() {
  return bench::kCases;
}

std::string bench_machine() {
  return fmt::format("{}, {} in use", describe(machine()), gemm_threads());
}

void run_bench(const std::vector<std::string>& names, const BenchFiles& files,
               const std::function<void(const BenchRow&)>& row) {
  std::vector<const bench::Entry*> entries;
  std::vector<std::string> known;
  known.reserve(std::size(bench::kEntries));
  for (const bench::Entry& entry : bench::kEntries) known.emplace_back(entry.what.name);
  entries.reserve(names.size());
  for (const std::string& name : names) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end())
      throw Error(ErrorKind::usage, "there is no bench case \"" + name + "\"" + did_you_mean(name, known));
    entries.push_back(&bench::kEntries[found - known.begin()]);
    if (entries.back()->run_on && (files.tokenizers.empty() || files.texts.empty()))
      throw Error(ErrorKind::usage, "the bench case \"" + name + "\" needs --tokenizer FILE and --text FILE");
  }
  for (const bench::Entry* entry : entries) {
    // What an earlier case left is not this one's memory.
    release_cached_memory();
    forget_peak_resident();
    if (entry->run_on) {
      entry->run_on(files, row);
    } else {
      entry->run(row);
    }
  }
}

}  // namespace plumb
