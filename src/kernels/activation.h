// Activations of the feed-forward layer, plain (with the bias of the product before them) and gated.
//   GELU: Hendrycks, Gimpel, arXiv 1606.08415. Gated forms: Shazeer, arXiv 2002.05202.
// erf, tanh and exp are good to 2e-6 of max(1, |value|) and right in the tails: any finite or infinite input
// gives the limit, NaN gives NaN. Arrays are f32. Threads: OpenMP inside; no result depends on their number,
// bit for bit. Each add_*: false overwrites its output, true adds to it.
#pragma once

#include <cstdint>

#include "plumb/activation.h"
#include "tensor/dtype.h"

namespace plumb {

// y = act(x + bias), (N, C). y may be x where the backward will not need it.
struct ActivationForward {
  Activation kind = Activation::gelu;
  int64_t rows = 0, width = 0;
  const float* x = nullptr;
  const float* bias = nullptr;  // (C) or null
  float* y = nullptr;
  BFloat16* y_bf16 = nullptr;  // in place of y: rounded, as an operand of a bf16 product
};
void activation_forward(const ActivationForward& a);

// dx = act'(x + bias) * dy, from the same x and bias as the forward; dbias = column sums of this call's act'
// * dy.
struct ActivationBackward {
  Activation kind = Activation::gelu;
  int64_t rows = 0, width = 0;
  const float* x = nullptr;
  const float* bias = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;     // may be dy or x
  float* dbias = nullptr;  // (C) or null
  bool add_x = false, add_bias = false;
};
void activation_backward(const ActivationBackward& a);

// y = act(gate) * up. The strides count floats from row to row, so gate and up may be columns of one fused
// buffer.
struct GatedForward {
  Activation kind = Activation::silu;
  int64_t rows = 0, width = 0;
  const float* gate = nullptr;
  int64_t gate_stride = 0;
  const float* up = nullptr;
  int64_t up_stride = 0;
  float* y = nullptr;          // (N, C)
  BFloat16* y_bf16 = nullptr;  // in place of y, rounded
};
void gated_forward(const GatedForward& a);

// dgate = act'(gate) * up * dy, dup = act(gate) * dy. They may be gate and up themselves (same strides).
struct GatedBackward {
  Activation kind = Activation::silu;
  int64_t rows = 0, width = 0;
  const float* gate = nullptr;
  int64_t gate_stride = 0;
  const float* up = nullptr;
  int64_t up_stride = 0;
  const float* dy = nullptr;  // (N, C)
  float* dgate = nullptr;
  int64_t dgate_stride = 0;
  float* dup = nullptr;
  int64_t dup_stride = 0;
  bool add = false;  // both outputs
};
void gated_backward(const GatedBackward& a);

}  // namespace plumb
