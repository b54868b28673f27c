// metrics.jsonl of a run folder (its lines: plumb/trainer.h).
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "plumb/trainer.h"

namespace plumb {

class MetricsFile {
 public:
  explicit MetricsFile(std::string path) : path_(std::move(path)) {}

  // Drops the lines of steps after `step`, and a last line that was cut, so that a resumed run writes none
  // twice.
  void truncate(int64_t step);
  void add(const StepMetrics& m);
  void add(int64_t step, const Evaluation& e);

 private:
  void append(std::string line);

  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;  // opened by the first line
};

}  // namespace plumb
