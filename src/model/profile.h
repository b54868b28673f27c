// Admin's init (Liu 2020, 2004.08249): how much of the sum is the branch is set by the variances that a pass
// over a batch shows. In each stack, omega_1 = 1 and omega_(i+1)^2 = omega_i^2 Var(x_i) + Var(f_i), where x_i
// is the stream that sub-layer i receives and f_i its branch; y_i = N(omega_i x_i + f_i), omega_i a learned
// vector.
#pragma once

#include <functional>

#include "model/transformer.h"

namespace plumb {

bool wants_profile(const ModelConfig& config);

// `pass` runs the model on one batch in the context it is given. Sub-layers are set on the way, each before
// its own sum is made. Padding counts as rows like any other.
void profile_shortcuts(Transformer& model, const std::function<void(Context&)>& pass);

// The same with a batch of ids drawn from the seed, for want of a text.
void profile_shortcuts(Transformer& model, uint64_t seed);

}  // namespace plumb
