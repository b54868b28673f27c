// Softmax cross-entropy on a chunk of rows of logits, with its gradient in place, so that the logits of a
// whole step and their gradient never exist at once. Label smoothing: Szegedy et al., arXiv 1512.00567.
// z-loss: Chowdhery et al., arXiv 2204.02311. Threads: OpenMP over rows; no result depends on their number,
// bit for bit.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace plumb {

constexpr int32_t kIgnore = -100;  // the target of a row that is not scored

// Sums over the rows that have a target; not divided by anything.
struct LossSums {
  double loss = 0;      // (1 - e) * nll + e * mean over V of -log p, plus z_loss * log(Z)^2
  double nll = 0;       // -log p(target)
  double z_loss = 0;    // z_loss * log(Z)^2
  double log_z = 0;     // log(Z), Z = sum of exp(logit)
  int64_t count = 0;    // rows with a target
  int64_t correct = 0;  // rows whose largest logit (the first of equals) is the target

  LossSums& operator+=(const LossSums& o);
};

// With `gradient`, logits become scale * d(loss) / d(logits), where scale is 1 / targets of the whole
// accumulated step; a row whose target is kIgnore becomes exactly 0 (never read, so it may hold anything).
// Without it logits stay. Targets are kIgnore or in [0, V).
struct CrossEntropy {
  int64_t rows = 0, vocabulary = 0;
  float* logits = nullptr;           // (N, V)
  const int32_t* targets = nullptr;  // (N)
  float label_smoothing = 0;
  float z_loss = 0;
  double scale = 1;
  bool gradient = false;
  float* row_nll = nullptr;  // (N) or null: -log p(target) of each row, 0 for ignored ones
  // (N, V) or null: where the gradient goes instead, rounded; the logits are lost all the same.
  BFloat16* gradient_bf16 = nullptr;
};
LossSums cross_entropy(const CrossEntropy& a);

// Sums over n numbers x against targets: (x - t)^2, and -t log p - (1 - t) log(1 - p) where p = sigmoid(x).
// With `gradient`, x becomes scale * d(sum) / dx. On one thread: they are as many as a batch has labels.
struct NumberLoss {
  int64_t n = 0;
  float* x = nullptr;
  const float* targets = nullptr;
  double scale = 1;
  bool gradient = false;
};
double squared_error(const NumberLoss& a);
double sigmoid_cross_entropy(const NumberLoss& a);

// out = logits - log(Z), row by row, (N, V); out may be logits.
void log_softmax(int64_t rows, int64_t width, const float* logits, float* out);

}  // namespace plumb
