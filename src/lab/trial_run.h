// The processes of a trial.
#pragma once

#include <optional>
#include <string>

#include "plumb/trial.h"

namespace plumb {

std::string cell_path(const TrialPlan& plan, const TrialCell& cell, const std::string& end);

struct CellEnd {
  std::string outcome;  // finished, diverged, failed
  std::string message;
};
// How a cell ended; nothing where it has not. A record that cannot be read counts as none.
std::optional<CellEnd> cell_end(const TrialPlan& plan, const TrialCell& cell);

// Where a running cell is: the last line of its metrics that is whole.
struct CellProgress {
  int64_t step = 0;
  double loss = 0;
};
CellProgress cell_progress(const TrialPlan& plan, const TrialCell& cell);

}  // namespace plumb
