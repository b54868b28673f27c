// What a run left in its folder, read for reports: every file is optional but metrics.jsonl, and a line that
// is malformed is named and passed over. Formats: plumb/trainer.h and plumb/probe.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plumb/config.h"

namespace plumb {

// A number that was null in the file (not finite) is NaN here; what a line does not have is absent.
using Measures = std::map<std::string, double>;

struct StepLine {
  int64_t step = 0;
  double loss = 0, learning_rate = 0, gradient_norm = 0;
  double tokens = 0, seconds = 0;
  bool skipped = false, spike = false;
};

struct EvaluationLine {
  int64_t step = 0;
  Measures measures;  // "loss", "perplexity", "bits_per_byte", "accuracy", "exact"
};

struct ProbeLine {
  struct Place {
    std::string at;
    Measures measures;  // of a site "stream.rms", of a parameter "rms"
  };
  int64_t step = 0;
  double gradient_norm = 0, clip = 1;
  std::vector<Place> sites, parameters;  // in the file's order
};

struct RunRecords {
  std::string folder, name;     // the path as given, and its last part
  std::vector<StepLine> steps;  // by step, each once: the last line of a step counts
  std::vector<EvaluationLine> evaluations;
  std::vector<ProbeLine> probe;
  std::optional<ModelConfig> config;
  std::string recipe;                 // text of recipe.toml
  std::string sample;                 // text of sample.txt
  std::vector<std::string> problems;  // what was passed over, and why: "probe.jsonl, line 3: ..."
};

// Throws Error(file) where there is no folder, no metrics.jsonl, or no step in it. Of a run that is
// `growing`, a last line without its end is still being written, and no problem.
RunRecords read_run(const std::string& folder, bool growing = false);

// Differs when a file that read_run() reads has changed.
std::string run_version(const std::string& folder);

// The settings of recipe.toml, which has one `key = value` a line, in its order; values as they stand there.
std::vector<std::pair<std::string, std::string>> recipe_settings(const RunRecords& run);
// One of them without its quotes; "" where it is not named.
std::string setting(const RunRecords& run, std::string_view key);

}  // namespace plumb
