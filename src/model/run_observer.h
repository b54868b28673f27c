// What watches a training run or a model that runs: an Observer of the passes that also sees gradients and
// updates. The probe is one; trainer, evaluation and generator know only this.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nn/parameter.h"
#include "ops/context.h"

namespace plumb {

struct ParameterUpdate {
  const Parameter* parameter = nullptr;
  double sum_of_squares = 0;  // of value(new) - value(old)
};

class RunObserver : public Observer {
 public:
  // Asked before each step; where it says no, nothing else is called for that step and nothing is allocated.
  virtual bool wants(int64_t step) = 0;
  // The accumulated gradients, before clipping; they are scaled by clip_scale in the update.
  virtual void gradients(int64_t step, const ParameterTable& parameters, double clip_scale) = 0;
  virtual void updates(int64_t step, const std::vector<ParameterUpdate>& updates) = 0;
  // After the step's own metrics (loss, lr) are known.
  virtual void finish(int64_t step, double loss, double learning_rate) = 0;

  // Of a model that only runs: asked before each pass, which the observer counts itself; and after a pass
  // that it wanted, the loss where there is one.
  virtual bool wants_pass() { return false; }
  virtual void finish_pass(std::optional<double> /*loss*/) {}
};

}  // namespace plumb
