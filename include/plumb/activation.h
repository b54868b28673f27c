// The non-linearities of a feed-forward layer. With a gate: gelu is GEGLU, silu is SwiGLU, relu is ReGLU.
#pragma once

namespace plumb {

enum class Activation {
  relu,
  gelu,          // x * Phi(x), with erf
  gelu_tanh,     // its tanh approximation (GPT-2, T5 v1.1, Gemma)
  silu,          // x * sigmoid(x)
  relu_squared,  // Primer, So 2021, 2109.08668; Nemotron
  gelu_sigmoid,  // x * sigmoid(1.702 x), GELU's coarser approximation (Hendrycks 2016, 1606.08415)
};

}  // namespace plumb
