// Linear maps, alone or with the activation before them. x is (..., in), the result (..., out).
// Weights are (out, in), or (in, out) where the file's family stores them so.
#pragma once

#include "ops/context.h"
#include "plumb/activation.h"

namespace plumb {

// A weight as f32 in memory of its own, which may be written.
Tensor owned_f32(const Tensor& stored);

}  // namespace plumb

namespace plumb::ops {

struct LinearWeights {
  Tensor weight;  // (out, in), or (in, out)
  Tensor bias;    // (out) or undefined
  bool in_out = false;

  int64_t inputs() const { return in_out ? weight.size(0) : weight.size(1); }
  int64_t outputs() const { return in_out ? weight.size(1) : weight.size(0); }
};

// y = x Wᵀ + b
Tensor linear(Context& context, const Tensor& x, const LinearWeights& w);

// Gives x and the weight (not the bias) their gradients of linear(), from dy (N, out) in f32 or bf16: for a
// loss that makes dy itself, as bf16 products read it.
void linear_backward(DType compute, const Tensor& dy, const Tensor& x, const LinearWeights& w);

// y = linear(act(x + bias)); bias (in) or undefined. act(x + bias) is made again in the backward pass instead
// of being kept.
Tensor activated_linear(Context& context, const Tensor& x, const Tensor& bias, Activation activation,
                        const LinearWeights& w);

// y = linear(act(gate) * up), likewise. gate and up have the same shape; or up is undefined, and gate holds
// both: the columns of gate, then those of up. So for gated(), too.
Tensor gated_linear(Context& context, const Tensor& gate, const Tensor& up, Activation activation,
                    const LinearWeights& w);

// act(x), and act(gate) * up, kept: the plain composition, and what needs the value itself.
Tensor activation(Context& context, const Tensor& x, Activation kind);
Tensor gated(Context& context, const Tensor& gate, const Tensor& up, Activation kind);

}  // namespace plumb::ops
