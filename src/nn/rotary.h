// What rotary positions turn by: one table for the layers that agree on it.
#pragma once

#include <vector>

#include "plumb/config.h"
#include "tensor/tensor.h"

namespace plumb {

// Dims of a head that are turned: even. `c` is resolved.
int64_t rotary_dim(const LayerConfig& c);

// Radians that each pair turns by from one position to the next, in a sequence of `length` tokens (which
// matters to dynamic and longrope only); rotary_dim / 2 of them. `c` is resolved.
std::vector<double> rotary_frequencies(const LayerConfig& c, int64_t length);

struct RotaryTable {
  Tensor cos, sin;  // (positions, rotary_dim / 2)
  int64_t rotary_dim = 0;
};
RotaryTable rotary_table(const LayerConfig& c, int64_t positions);

}  // namespace plumb
