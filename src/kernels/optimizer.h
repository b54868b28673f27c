// Parameter updates, each one pass over its arrays. All f32 of n elements; the arrays do not overlap unless
// said. Threads: OpenMP inside; no result depends on their number, bit for bit.
#pragma once

#include <cstdint>

namespace plumb {

// AdamW (Loshchilov, Hutter, arXiv 1711.05101), with bias correction and decay of the value before the step:
//   g' = gradient_scale * g;  m = b1 m + (1 - b1) g';  v = b2 v + (1 - b2) g'^2
//   p = (1 - lr * weight_decay) p - lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
struct AdamW {
  int64_t n = 0;
  float* p = nullptr;
  const float* g = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  int64_t step = 1;           // t, from 1
  double gradient_scale = 1;  // the clipping factor
  float* update = nullptr;    // p(new) - p(old); null: not wanted; may be g
};
double adamw_step(const AdamW& a);  // sum of squares of the update, p(new) - p(old)

// SGD: g' = gradient_scale * g + weight_decay * p;  u = momentum * u + g';  p -= lr * (nesterov ? g' +
// momentum * u : u) (as PyTorch's). Without momentum u may be null.
struct Sgd {
  int64_t n = 0;
  float* p = nullptr;
  const float* g = nullptr;
  float* u = nullptr;
  double lr = 0, momentum = 0, weight_decay = 0;
  bool nesterov = false;
  double gradient_scale = 1;
  float* update = nullptr;  // as AdamW's
};
double sgd_step(const Sgd& a);  // sum of squares of the update

// The pointwise parts of Muon (Jordan et al. 2024), around the Newton-Schulz products:
//   u = momentum * u + gradient_scale * g;  out = nesterov ? gradient_scale * g + momentum * u : u
struct MuonMomentum {
  int64_t n = 0;
  const float* g = nullptr;
  float* u = nullptr;
  double momentum = 0.95;
  bool nesterov = true;
  double gradient_scale = 1;
  float* out = nullptr;
};
void muon_momentum(const MuonMomentum& a);
// p = decay * p - step * direction; returns the sum of squares of the update.
struct DecayedStep {
  int64_t n = 0;
  float* p = nullptr;
  const float* direction = nullptr;
  double decay = 1;  // 1 - lr * weight_decay
  double step = 0;
  float* update = nullptr;  // as AdamW's; may be direction
};
double decayed_step(const DecayedStep& a);

}  // namespace plumb
