// A trial: the same training at every point of a grid, each cell a process of its own, and what the cells say
// together. A trial's folder:
//
//   trial.toml            what was asked for
//   cells/NAME.toml       the resolved recipe of a cell: `plumb train cells/NAME.toml` is this cell
//   cells/NAME/           its run folder (plumb/trainer.h)
//   cells/NAME.log        what its process said
//   cells/NAME.json       how it ended: {"outcome":"finished"}, "diverged", or "failed" with "message"
//   trial.jsonl           the results, one JSON object a line (below)
//   report.html           the page of them
//
// trial.jsonl has a line for each cell,
// {"cell","values":{key:value},"outcome","loss","initial_loss","trains"}; then one for each series (a point
// of the grid without lr and seed), {"series","lr_sensitivity","best_lr",
// "largest_stable_lr","loss":{"mean","low","high","count"}}; one for each fitted slope,
// {"fit","series","slope", "low","high","count","r2"}; and one for each sentence of the verdict, {"verdict"}.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plumb {

struct TrialAxis {
  std::string key;  // of a recipe
  std::vector<std::string> values;
};

struct TrialCell {
  std::string name;                 // of its files
  std::vector<std::string> values;  // one for each axis
  std::string recipe;               // TOML
  int64_t steps = 0;
};

struct TrialPlan {
  std::string folder;
  std::string recipe;  // TOML of the trial itself
  std::vector<TrialAxis> axes;
  std::vector<TrialCell> cells;
  int64_t jobs = 0;     // processes at a time; 0: one for each core
  std::string program;  // `plumb`
};

// The points of the grid, the last axis fastest, without their recipes. Throws Error(usage) for a key that
// comes twice, an axis without values, a value that comes twice, or more than 10000 points.
std::vector<TrialCell> trial_cells(const std::vector<TrialAxis>& axes);

struct TrialOutcome {
  int64_t finished = 0, diverged = 0, failed = 0;
};

// Runs the cells that have no end yet; a cell that was cut goes on from its newest checkpoint. The machine's
// cores are divided among the processes. Progress on stderr: a table on a terminal, else lines. Throws
// Error(usage) where the folder holds a cell of this name with another recipe, or another trial runs in it;
// Error(interrupted) after a stop was asked for, with every cell's process ended and resumable.
TrialOutcome run_trial(const TrialPlan& plan);

// Reads the cells' folders and writes trial.jsonl and the page. Returns the verdict, a sentence a line.
// Throws Error(file) where no cell has a record.
std::vector<std::string> write_trial_report(const TrialPlan& plan, const std::string& out_html);

}  // namespace plumb
