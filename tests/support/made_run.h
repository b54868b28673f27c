// The folder of a training run that never was, for tests of what reads runs: smooth curves with some noise,
// in the files and formats of a real one.
#pragma once

#include <string>

#include "plumb/config.h"

namespace plumb::test {

struct MadeRun {
  ModelConfig config;
  int64_t steps = 200;
  int64_t probe_every = 10;  // 0: no probe.jsonl
  bool events = true;        // a skipped step and a spike
};

// A small pre-norm decoder.
ModelConfig made_config();

void write_made_run(const std::string& folder, const MadeRun& run);

}  // namespace plumb::test
