#include "train/pass.h"

#include <algorithm>

#include "ops/experts.h"

namespace plumb {
int64_t real_tokens(const Batch& b) {
  return std::count(b.mask.begin(), b.mask.end(), 1) +
         std::count(b.decoder_mask.begin(), b.decoder_mask.end(), 1);
}

StepSums accumulate(const Transformer& model, const std::vector<Batch>& batches, const TrainOptions& options,
                    int64_t step, Observer* observer) {
  int64_t targets = 0;
  for (const Batch& b : batches) targets += b.target_count;
  StepSums total;
  for (size_t m = 0; m < batches.size(); ++m) {
    const Batch& b = batches[m];
    if (b.target_count == 0) continue;
    const double share = static_cast<double>(b.target_count) / static_cast<double>(targets);
    Tape tape;
    ops::Balance balance{.weight = model.config().router_aux * share};
    Context context{.tape = &tape,
                    .training = true,
                    .plain = options.plain,
                    .recompute = options.recompute,
                    .compute = options.dtype == Precision::bf16 ? DType::bf16 : DType::f32,
                    .random = {options.seed, random_stream(static_cast<uint64_t>(step), m)},
                    .observer = m == 0 ? observer : nullptr,
                    .balance = &balance};
    total.sums += batch_loss(context, model, b,
                             {.label_smoothing = options.label_smoothing,
                              .z_loss = options.z_loss,
                              .scale = 1.0 / static_cast<double>(targets)});
    tape.backward();
    total.balance += share * balance.value();
    total.tokens += real_tokens(b);
  }
  return total;
}

}  // namespace plumb
