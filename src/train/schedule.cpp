// Learning rate by step. Step 1 of a warmup of W steps runs at 1/W, step W at 1; what follows counts from
// there, and the last step runs at `min_lr` where the schedule decays.
//   cosine: Loshchilov and Hutter 2017, 1608.03983; inverse square root: Vaswani 2017, 1706.03762;
//   warmup-stable-decay: Hu 2024, 2404.06395.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "plumb/trainer.h"

namespace plumb {
namespace {

// How far `step` is on the way from `first` (0) to `last` (1).
double progress(int64_t step, int64_t first, int64_t last) {
  if (step <= first || last <= first) return step <= first ? 0 : 1;
  return std::min(1.0, static_cast<double>(step - first) / static_cast<double>(last - first));
}

}  // namespace

double schedule_factor(const TrainOptions& o, int64_t step) {
  if (step < o.warmup) return static_cast<double>(step) / static_cast<double>(o.warmup);
  const double decayed = 1 - o.min_lr;
  switch (o.schedule) {
    case ScheduleKind::constant:
      return 1;
    case ScheduleKind::linear:
      return 1 - decayed * progress(step, o.warmup, o.steps);
    case ScheduleKind::cosine:
      return 1 - decayed * 0.5 * (1 - std::cos(std::numbers::pi * progress(step, o.warmup, o.steps)));
    case ScheduleKind::inverse_sqrt: {
      const double peak = static_cast<double>(std::max<int64_t>(1, o.warmup));
      return std::sqrt(peak / static_cast<double>(step));
    }
    case ScheduleKind::wsd: {
      const auto decay = static_cast<int64_t>(std::llround(o.decay_fraction * static_cast<double>(o.steps)));
      return 1 - decayed * progress(step, std::max(o.warmup, o.steps - decay), o.steps);
    }
  }
  return 1;
}

}  // namespace plumb
