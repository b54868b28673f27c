// The accumulated gradient of a step, over its micro-batches.
#pragma once

#include <vector>

#include "model/batch_pass.h"
#include "plumb/trainer.h"

namespace plumb {

int64_t real_tokens(const Batch& batch);  // that the model reads

struct StepSums {
  LossSums sums;
  double balance = 0;  // load-balancing loss, summed over layers, mean over micro-batches by their targets
  int64_t tokens = 0;
};

// Gradients of the mean loss over the targets of all micro-batches together: the count is known before the
// first pass, so that every cut into micro-batches gives the same gradient. Added to what is written already.
// Batches without any target give no pass and no gradient. `observer` sees the first micro-batch.
StepSums accumulate(const Transformer& model, const std::vector<Batch>& batches, const TrainOptions& options,
                    int64_t step, Observer* observer);

}  // namespace plumb
