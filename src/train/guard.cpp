#include "train/guard.h"

#include <algorithm>
#include <cmath>

namespace plumb {

double Guard::deviation(double loss) const {
  const auto n = static_cast<double>(state_.window.size());
  if (options_.spike_window == 0 || n < static_cast<double>(options_.spike_window)) return 0;
  double mean = 0, variance = 0;
  for (const double x : state_.window) mean += x / n;
  for (const double x : state_.window) variance += (x - mean) * (x - mean) / (n - 1);
  return (loss - mean) / std::max({std::sqrt(variance), 1e-3 * std::abs(mean), 1e-12});
}

Verdict Guard::judge(double loss, double gradient_norm) {
  Verdict v;
  v.finite = std::isfinite(loss) && std::isfinite(gradient_norm);
  if (v.finite) {
    v.z = deviation(loss);
    v.spike = v.z > options_.spike_z;
  }
  v.skip = !v.finite || (v.spike && options_.spike == SpikeAction::skip);
  state_.spikes += v.spike;
  state_.skipped += v.skip;
  state_.skips_in_row = v.skip ? state_.skips_in_row + 1 : 0;
  if (!v.skip && options_.spike_window > 0) {
    if (static_cast<int64_t>(state_.window.size()) >= options_.spike_window)
      state_.window.erase(state_.window.begin());
    state_.window.push_back(loss);
  }
  return v;
}

}  // namespace plumb
