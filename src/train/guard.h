// Watches the loss of a run: steps that are not finite, and spikes.
#pragma once

#include <vector>

#include "plumb/trainer.h"

namespace plumb {

struct Verdict {
  bool finite = true;
  bool spike = false;
  double z = 0;  // standard deviations above the mean of the window
  bool skip = false;
};

// A spike is a loss more than spike_z standard deviations above the mean of the last spike_window losses,
// once there are so many; a spread below a thousandth of the mean counts as that, so that a loss that stands
// still does not make the next small change a spike. Losses of skipped steps do not enter the window.
class Guard {
 public:
  explicit Guard(const TrainOptions& options) : options_(options) {}

  Verdict judge(double loss, double gradient_norm);

  // What a checkpoint keeps.
  struct State {
    std::vector<double> window;  // oldest first
    int64_t skipped = 0, spikes = 0, skips_in_row = 0;
  };
  const State& state() const { return state_; }
  void restore(State state) { state_ = std::move(state); }

 private:
  double deviation(double loss) const;

  TrainOptions options_;
  State state_;
};

}  // namespace plumb
