// What a running trial shows: a table that is drawn over itself on a terminal, a line for each change
// elsewhere.
#pragma once

#include <vector>

#include "plumb/trial.h"

namespace plumb {

struct CellState {
  enum Kind { waiting, running, finished, diverged, failed } kind = waiting;
  int64_t step = 0;
  double loss = 0;
};

class TrialTable {
 public:
  explicit TrialTable(const TrialPlan& plan);

  void show(const std::vector<CellState>& states);
  void finish(const std::vector<CellState>& states);  // the last one, which stays

 private:
  std::vector<std::string> lines(const std::vector<CellState>& states) const;
  void draw(const std::vector<std::string>& lines);
  void tell(const std::vector<CellState>& states);

  const TrialPlan& plan_;
  bool terminal_;
  double start_ = 0;
  int64_t first_steps_ = -1;  // made before this call
  size_t drawn_ = 0;          // lines that stand on the terminal
  std::vector<CellState> told_;
};

}  // namespace plumb
