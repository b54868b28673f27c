// Checkpoints: one safetensors file with all that a run needs to go on: weights with buffers ("weight:NAME"),
// the optimizer's state ("m:NAME", "v:NAME", "u:NAME"), and as JSON in its metadata the step, which is also
// the position in schedule and data and the number that random streams start from, the guard's window, the
// best validation so far, the model's config, the options, and what the data were. A checksum covers all of
// it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/guard.h"
#include "train/optimizer.h"

namespace plumb {

struct RunState {
  int64_t step = 0;  // the last one made
  int64_t tokens = 0;
  double last_loss = 0;
  Guard::State guard;
  std::optional<double> best_validation;  // loss
  int64_t best_step = 0;                  // that model/ is from; 0: there is none yet
};

// What a checkpoint has to agree with, and what it may differ in.
struct RunIdentity {
  ModelConfig config;
  TrainOptions options;
  std::string data;  // a fingerprint
  std::string base;  // likewise, of the weights beside an adapter, which checkpoints leave out; else ""
};

std::string checkpoint_path(const std::string& folder, int64_t step);  // folder/step-00000100.safetensors
std::vector<int64_t> checkpoint_steps(
    const std::string& folder);  // oldest first; empty if there is no folder

// Streams to a file beside, and renames. Throws Error(file).
void write_checkpoint(const std::string& path, const RunState& state, const RunIdentity& identity,
                      const ParameterTable& parameters, const Optimizer& optimizer);

// Puts everything back. Nothing is changed unless the whole file is right: Error(file) for one that is cut,
// damaged or no checkpoint; Error(config) where it is of another model or optimizer, Error(input) where it is
// of other data. An option that differs is told in a notice, and the new one holds.
RunState read_checkpoint(const std::string& path, const RunIdentity& identity,
                         const ParameterTable& parameters, Optimizer& optimizer);

// Removes all but the newest `keep`, and what an interrupted write left.
void prune_checkpoints(const std::string& folder, int64_t keep);

}  // namespace plumb
