// Cross-entropy of a linear head over the vocabulary.
#pragma once

#include "kernels/loss.h"
#include "ops/scale.h"

namespace plumb::ops {

struct LossOptions {
  double label_smoothing = 0;
  double z_loss = 0;
  double scale = 1;  // 1 / targets of the whole accumulated step: the gradient is of scale * sum
};

// From hidden states (..., C) to logits (..., V).
struct Head {
  LinearWeights map;
  ColumnFactors scale{};    // of each logit; without v: none
  Tensor untrained_bias{};  // (V) or undefined
  double softcap = 0;       // logits become cap tanh(logits / cap), last; 0: none
};
Tensor logits(Context& context, const Tensor& h, const Head& head);

// Sums over the rows with a target (kIgnore: none), and where the context records, the gradient of scale *
// loss. The logits (N, V) exist a chunk of rows at a time, and their gradient goes back into h and the
// weights at once. h (..., C); targets (N) i32.
LossSums linear_cross_entropy(Context& context, const Tensor& h, const Head& head, const Tensor& targets,
                              const LossOptions& options);

// logits (..., V) as they stand: the plain composition's loss.
LossSums cross_entropy(Context& context, const Tensor& logits, const Tensor& targets,
                       const LossOptions& options);

// Sums over all numbers of scores against f32 targets, as kernels/loss.h has them, and the gradient of scale
// times the sum.
LossSums squared_error(Context& context, const Tensor& scores, const Tensor& targets, double scale);
LossSums sigmoid_cross_entropy(Context& context, const Tensor& scores, const Tensor& targets, double scale);

// x + bias over the last dim; the bias does not train.
Tensor add_untrained_bias(Context& context, const Tensor& x, const Tensor& bias);

}  // namespace plumb::ops
