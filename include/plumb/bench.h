// Rates of the engine on this machine, each beside the roof measured in the same run: oneDNN's best product,
// or the memory's bandwidth. Never absolute times: what counts is the share of the roof.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

struct BenchRow {
  std::string name;   // train step f32
  std::string shape;  // 12 layers, 768 wide, 124 M parameters, 4 x 512 tokens
  double rate = 0;
  std::string unit;        // GF/s, GB/s, tokens/s, us/token, MB
  double peak = 0;         // the roof, in the same unit; 0: there is none
  double share = 0;        // rate / peak
  double resident_gb = 0;  // most memory the process held in this case; 0: not asked
};

// What a case reads that does not make its own input.
struct BenchFiles {
  std::vector<std::string> tokenizers, texts;
};

struct BenchCase {
  std::string_view name;
  std::string_view what;
  bool reads_files = false;  // BenchFiles: both of them
};
std::span<const BenchCase> bench_cases();
std::string bench_machine();  // processor, cores, memory and threads in words

// Runs cases (names of bench_cases(), else Error(usage) before any is run) and hands out their rows as they
// are measured.
void run_bench(const std::vector<std::string>& names, const BenchFiles& files,
               const std::function<void(const BenchRow&)>& row);

}  // namespace plumb
