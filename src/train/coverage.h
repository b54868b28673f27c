// Whether the first step reached every parameter: a graph that leaves one out trains, and looks well, without
// it.
#pragma once

#include <string>
#include <vector>

#include "model/run_observer.h"

namespace plumb {

// Trainable parameters whose gradient no backward pass wrote, by name. Call between backward pass and update.
std::vector<std::string> unreached(const ParameterTable& parameters);

// Error(config) naming the first few of them.
void throw_unreached(const std::vector<std::string>& names);

// Parameters that the first step left where they were, or whose gradient is nothing but rounding (its rms
// below 1e-7 of the whole gradient's), with the likely reason; one line for each reason, empty if all is
// well. In a fused bias of queries, keys and values the keys are looked at too. `before_update` takes what
// the gradients say; lines() is called with the updates that followed.
class FirstStepCheck {
 public:
  void before_update(const ParameterTable& parameters, double gradient_norm);
  std::vector<std::string> lines(const std::vector<ParameterUpdate>& updates) const;

 private:
  struct Finding {
    const Parameter* parameter = nullptr;
    std::string name, reason;
    bool part = false;  // only a part of it has no gradient
  };
  std::vector<Finding> silent_;
};

}  // namespace plumb
