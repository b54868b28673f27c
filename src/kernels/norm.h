// Norms over rows of width C, alone or fused with the residual add before them, forward and backward.
//   LayerNorm: Ba, Kiros, Hinton, arXiv 1607.06450. RMSNorm: Zhang, Sennrich, arXiv 1910.07467.
//   ScaleNorm: Nguyen, Salazar, arXiv 1910.05895. DyT: Zhu et al., arXiv 2503.10622.
//   BatchNorm: Ioffe, Szegedy, arXiv 1502.03167.
//
// Statistics are f64 sums over f32 data, centred before squared; eps is added inside the root (ScaleNorm: a
// floor under the length). Constant rows, zero rows, width 1, a large mean with a small spread and rows near
// the range of f32 come out right. Statistics are saved as f64 because a mean rounded to f32 can be wrong by
// a good part of the spread. Every (N, C) array is contiguous f32. Threads: OpenMP inside; parameter
// gradients are added over fixed blocks of rows in order, so no result depends on the number of threads, bit
// for bit. rows 0 is allowed: gradients are then 0. Each add_*: false overwrites its output, true adds to it.
// A null output is not computed.
#pragma once

#include <cstdint>

#include "kernels/elementwise.h"

namespace plumb {

enum class RowNorm {
  layer,  // (x - mean) / sqrt(var + eps) * (gain_offset + gain) + bias
  rms,    // x / sqrt(mean(x^2) + eps) * (gain_offset + gain) + bias
  scale,  // gain * x / max(|x|, eps), gain one number
};

// sum = alpha * x + g * branch;  y = scale * norm(sum).  Without a branch: y = scale * norm(x).
// `sum` may be x or branch; `y` may be branch (or x, where the backward will not need it), not sum.
struct NormForward {
  RowNorm kind = RowNorm::layer;
  int64_t rows = 0, width = 0;
  const float* x = nullptr;       // (N, C)
  const float* branch = nullptr;  // (N, C) or null
  float alpha = 1;                // with a branch only
  Gate gate{};                    // with a branch only
  const float* gain = nullptr;    // (C), for scale (1); null: all ones, and gain_offset does not apply
  const float* bias = nullptr;    // (C) or null; not for scale
  float gain_offset = 0;          // 1 where the stored gain is w of 1 + w
  float eps = 1e-5f;              // > 0
  float scale = 1;                // s of the sub-layer formula
  float* sum = nullptr;           // (N, C), with a branch only
  float* y = nullptr;             // (N, C)
  double* stats = nullptr;        // (N, 2): mean (0 but for layer) and 1 / deviation; null: not kept
};
void norm_forward(const NormForward& a);

// total = dsum + norm'(dy);  d_stream = alpha * total, d_branch = g * total, and the parameters' gradients.
// For a norm without a branch, d_stream is dx (alpha 1). Where alpha and g are both 1, d_branch equals
// d_stream: pass one of them and share it. d_stream or d_branch may be dsum or dy, not each other.
struct NormBackward {
  RowNorm kind = RowNorm::layer;
  int64_t rows = 0, width = 0;
  const float* dy = nullptr;      // (N, C)
  const float* dsum = nullptr;    // (N, C): what arrives along the stream; null: nothing
  const float* sum = nullptr;     // (N, C): what was normed (x without a branch)
  const double* stats = nullptr;  // (N, 2) from the forward
  const float* gain = nullptr;
  float gain_offset = 0;
  float eps = 1e-5f;
  float scale = 1;
  float alpha = 1;
  Gate gate{};
  const float* branch = nullptr;  // needed for dgate only
  float* d_stream = nullptr;      // (N, C)
  float* d_branch = nullptr;      // (N, C)
  float* dgain = nullptr;         // (C), for scale (1)
  float* dbias = nullptr;         // (C)
  float* dgate = nullptr;         // (1) or (C)
  bool add_stream = false, add_branch = false, add_gain = false, add_bias = false, add_gate = false;
};
void norm_backward(const NormBackward& a);

// Dynamic tanh: y = gain * tanh(alpha * x) + bias, alpha one learned number. y may be x where no backward
// follows.
struct DytForward {
  int64_t rows = 0, width = 0;
  const float* x = nullptr;
  const float* alpha = nullptr;  // (1)
  const float* gain = nullptr;   // (C) or null
  const float* bias = nullptr;   // (C) or null
  float* y = nullptr;
};
void dyt_forward(const DytForward& a);

struct DytBackward {
  int64_t rows = 0, width = 0;
  const float* x = nullptr;
  const float* dy = nullptr;
  const float* alpha = nullptr;
  const float* gain = nullptr;
  float* dx = nullptr;  // may be dy
  float* dalpha = nullptr;
  float* dgain = nullptr;
  float* dbias = nullptr;
  bool add_x = false, add_alpha = false, add_gain = false, add_bias = false;
};
void dyt_backward(const DytBackward& a);

// BatchNorm of each column over the real rows (batch and time together). `mask` (N): 0 marks a padding row,
// which is left out of the statistics, gives exactly 0 and takes and sends no gradient; null: all rows are
// real. Training: batch statistics (biased variance), and running = (1 - momentum) * running + momentum *
// batch, the variance unbiased. One real row leaves the running variance as it was, no real row leaves both.
// Evaluation: running statistics.
struct BatchNormForward {
  int64_t rows = 0, width = 0;
  const float* x = nullptr;
  const uint8_t* mask = nullptr;
  const float* gain = nullptr;  // (C) or null
  const float* bias = nullptr;  // (C) or null
  float eps = 1e-5f;
  float momentum = 0.1f;
  bool training = true;
  float* running_mean = nullptr;  // (C); in training it may be null
  float* running_var = nullptr;   // (C)
  float* y = nullptr;             // may be x where no backward follows
  double* stats = nullptr;        // (C, 2): the mean and 1 / deviation that were used; null: not kept
};
void batch_norm_forward(const BatchNormForward& a);

struct BatchNormBackward {
  int64_t rows = 0, width = 0;
  const float* x = nullptr;
  const uint8_t* mask = nullptr;
  const float* dy = nullptr;
  const double* stats = nullptr;
  const float* gain = nullptr;
  bool training = true;  // false: the statistics were constants
  float* dx = nullptr;   // may be dy
  float* dgain = nullptr;
  float* dbias = nullptr;
  bool add_x = false, add_gain = false, add_bias = false;
};
void batch_norm_backward(const BatchNormBackward& a);

}  // namespace plumb
