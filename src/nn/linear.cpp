#include "nn/linear.h"

#include <cmath>

namespace plumb {

double Builder::std(int64_t inputs, int64_t outputs, double gain) const {
  if (init_of(config) == Init::xavier) return gain * std::sqrt(2.0 / static_cast<double>(inputs + outputs));
  if (init_of(config) == Init::small)
    return gain * std::sqrt(2.0 / (5.0 * static_cast<double>(config.width)));
  return gain * config.init_std / std::sqrt(width_ratio(config));
}

Linear::Linear(const Builder& b, const Spec& spec) {
  Parameter weight{.name = b.name("weight"),
                   .role = Role::matrix,
                   .in_out = b.config.linear_in_out,
                   .unit = spec.unit,
                   .of_linear = true};
  int64_t outputs = 0;
  weight.init.reserve(spec.parts.size());
  for (const Part& part : spec.parts) {
    weight.init.push_back({part.outputs, b.std(spec.inputs, part.outputs, part.gain)});
    outputs += part.outputs;
  }
  weight.shape = weight.in_out ? Shape{spec.inputs, outputs} : Shape{outputs, spec.inputs};
  weight_ = b.table.add(std::move(weight));
  if (spec.reparam == Reparam::sigma) add_reparam(b, spec);
  if (spec.bias) bias_ = b.table.add({.name = b.name("bias"), .shape = {outputs}, .role = Role::bias});
}

void Linear::add_reparam(const Builder& b, const Spec& spec) {
  const auto maps = static_cast<int64_t>(spec.parts.size());
  weight_->gamma =
      b.table.add({.name = b.name("gamma"), .shape = {maps}, .role = Role::gain, .starts_as = "sigma(W)"});
  weight_->vectors = b.table.add({.name = b.name("singular"),
                                  .shape = {maps, spec.inputs},
                                  .role = Role::statistic,
                                  .init = {{maps, 1}},
                                  .starts_as = "singular vector"});
}

ops::LinearWeights Linear::weights(Context& context) const {
  const ops::LinearWeights w{weight_->value, bias_ ? bias_->value : Tensor(), weight_->in_out};
  return weight_->gamma ? ops::sigma_reparam(context, w, weight_->reparam()) : w;
}

Tensor Linear::forward(Context& context, const Tensor& x) const {
  const ops::LinearWeights w = weights(context);
  return adapted() ? ops::adapted_linear(context, x, w, weight_->adapter_weights())
                   : ops::linear(context, x, w);
}

}  // namespace plumb
