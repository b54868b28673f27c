// plumb bench: the engine's rates on this machine beside the roofs measured in the same run.
#include <fmt/format.h>

#include <cstdio>

#include "commands.h"
#include "plumb/bench.h"

namespace {

struct Flags {
  std::vector<std::string> cases;
  plumb::BenchFiles files;
  bool json = false;
};

void print_row(const plumb::BenchRow& r) {
  std::string roof;
  if (r.peak > 0) roof = fmt::format("{:5.1f} % of {:.4g}", 100 * r.share, r.peak);
  if (r.resident_gb > 0) roof += fmt::format(", {:.2f} GB resident", r.resident_gb);
  fmt::print("{:<30} {:<58} {:>9.4g} {:<9} {}\n", r.name, r.shape, r.rate, r.unit, roof);
  std::fflush(stdout);
}

void print_json(const plumb::BenchRow& r) {
  fmt::print(
      "{{\"name\":\"{}\",\"shape\":\"{}\",\"rate\":{},\"unit\":\"{}\",\"peak\":{},\"share\":{},"
      "\"resident_gb\":{}}}\n",
      r.name, r.shape, r.rate, r.unit, r.peak, r.share, r.resident_gb);
  std::fflush(stdout);
}

void run(const Flags& flags) {
  std::vector<std::string> names = flags.cases;
  if (names.empty()) {
    for (const plumb::BenchCase& c : plumb::bench_cases()) {
      if (!c.reads_files) names.emplace_back(c.name);
    }
  }
  if (!flags.json) fmt::print("{}\n", plumb::bench_machine());
  plumb::run_bench(names, flags.files, flags.json ? print_json : print_row);
}

}  // namespace

void add_bench(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand(
      "bench", "Measure rates on this machine beside the best product and the memory's bandwidth");
  std::string help = "Cases to run (default: all that need no files):";
  for (const plumb::BenchCase& c : plumb::bench_cases()) help += fmt::format("\n  {:<10} {}", c.name, c.what);
  command->add_option("cases", flags->cases, help);
  command->add_option("--tokenizer", flags->files.tokenizers, "Tokenizer files of the case \"tokenizer\"");
  command->add_option("--text", flags->files.texts, "Text files that it encodes");
  command->add_flag("--json", flags->json, "One JSON object a line");
  command->callback([flags] { run(*flags); });
}
