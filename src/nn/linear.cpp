#include "nn/linear.h"

#include <cmath>

namespace plumb {

double Builder::std(int64_t inputs, int64_t outputs, double gain) const {
  if (init_of(config) == Init::xavier) return gain * std::sqrt(2.0 / static_cast<double>(inputs + outputs));
  if (init_of(config) == Init::small)
    return gain * std::sqrt(2.0 / (5.0 * static_cast<double>(config.width)));
  return gain * config.init_std / std::sqrt(width_ratio(config));
}

Linear::Linear(const Builder& b, int64_t inputs, const std::vector<Part>& parts, bool bias) {
  Parameter weight{.name = b.name("weight"), .role = Role::matrix, .in_out = b.config.linear_in_out};
  int64_t outputs = 0;
  for (const Part& part : parts) {
    weight.init.push_back({part.outputs, b.std(inputs, part.outputs, part.gain)});
    outputs += part.outputs;
  }
  weight.shape = weight.in_out ? Shape{inputs, outputs} : Shape{outputs, inputs};
  weight_ = b.table.add(std::move(weight));
  if (bias) bias_ = b.table.add({.name = b.name("bias"), .shape = {outputs}, .role = Role::bias});
}

ops::LinearWeights Linear::weights() const {
  return {weight_->value, bias_ ? bias_->value : Tensor(), weight_->in_out};
}

}  // namespace plumb
