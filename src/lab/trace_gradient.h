// The way back: how much of the loss's gradient at each depth came by the shortcut and how much through the
// branch.
//
// Of y = N_out(alpha x + g branch(x)) the gradient at x is G = alpha S + B: S, the gradient at the sum, came
// by the shortcut, and B through the branch. G is observed, S too, and B is their difference. The share of a
// part P is <P, G> / <G, G>: shares sum to 1, and one is negative where its part points against the whole.
// "Straight" is what the end's gradient would be here by shortcuts alone, with the norms behind the adds
// passed on the way: the product of alpha and those norms' Jacobians.
#pragma once

#include <string>
#include <vector>

#include "lab/trace_pass.h"

namespace plumb {

struct GradientShare {
  std::string module;
  double rms = 0, shortcut_rms = 0, branch_rms = 0, straight_rms = 0;
  double shortcut = 0, branch = 0,
         straight = 0;  // shares of what arrives at the sub-layer's stream; NaN: none
};

// In the order of the forward pass. `observed` of a pass whose backward has run.
std::vector<GradientShare> gradient_shares(const Transformer& model, const Observed& observed);

struct LossGradient {
  double loss = 0;      // mean over the targets
  int64_t targets = 0;  // how many there were
  bool masked = false;  // the text with about a sixth of it masked, in place of the next tokens
  std::vector<GradientShare> shares;
};

// Forward and back through the loss of the text itself. The model's parameters get gradients, which are
// marked unwritten again. Throws Error(unsupported) without a head or, for an encoder, a mask token;
// Error(input) for a text without a target.
LossGradient loss_gradient(Model& model, const Tokenizer& tokenizer, const PassInput& input);

}  // namespace plumb
