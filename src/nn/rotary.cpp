#include "nn/rotary.h"

#include <cmath>

#include "kernels/rope.h"

namespace plumb {

int64_t rotary_dim(const LayerConfig& c) {
  if (c.kv_rank > 0) return c.rope_dim;
  // A fraction such as 64 / 192 must not lose a pair to its rounding.
  return static_cast<int64_t>(std::floor(static_cast<double>(c.head_dim) * c.rope.fraction + 1e-6)) / 2 * 2;
}

std::vector<double> rotary_frequencies(const LayerConfig& c, int64_t /*length*/) {
  std::vector<double> frequencies = rope_frequencies(c.rope.base, rotary_dim(c));
  if (c.rope.scaling == RopeScaling::linear) {
    for (double& f : frequencies) f /= c.rope.factor;
  }
  return frequencies;
}

RotaryTable rotary_table(const LayerConfig& c, int64_t positions) {
  const RopeTable table = rope_table(rotary_frequencies(c, positions), positions);
  RotaryTable t;
  t.rotary_dim = rotary_dim(c);
  t.cos = Tensor::of<float>({positions, t.rotary_dim / 2}, table.cos);
  t.sin = Tensor::of<float>({positions, t.rotary_dim / 2}, table.sin);
  return t;
}

}  // namespace plumb
