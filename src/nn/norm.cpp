#include "nn/norm.h"

#include <cmath>

namespace plumb {
namespace {

Tensor value(const Parameter* p) {
  return p ? p->value : Tensor();
}

}  // namespace

Norm::Norm(const Builder& b, const LayerConfig& c, int64_t width)
    : kind_(c.norm), eps_(c.norm_eps), unit_offset_(c.norm_unit_offset) {
  if (kind_ == NormKind::none) return;
  if (kind_ == NormKind::shift) {
    bias_ = b.table.add({.name = b.name("bias"), .shape = {1}, .role = Role::bias});
    return;
  }
  if (kind_ == NormKind::scale_norm) {  // g starts at sqrt(C), where ScaleNorm equals RMSNorm with gain 1
    if (!c.norm_affine) return;
    gain_ = b.table.add({.name = b.name("gain"),
                         .shape = {1},
                         .role = Role::gain,
                         .constant = std::sqrt(static_cast<double>(width))});
    return;
  }
  if (c.norm_affine) {
    gain_ = b.table.add(
        {.name = b.name("gain"), .shape = {width}, .role = Role::gain, .constant = unit_offset_ ? 0.0 : 1.0});
  }
  if (c.norm_bias) bias_ = b.table.add({.name = b.name("bias"), .shape = {width}, .role = Role::bias});
  if (kind_ == NormKind::dyt) {
    alpha_ = b.table.add({.name = b.name("alpha"), .shape = {1}, .role = Role::gain, .constant = 0.5});
  }
  if (kind_ == NormKind::batch_norm) {
    mean_ = b.table.add({.name = b.name("running_mean"), .shape = {width}, .role = Role::statistic});
    variance_ = b.table.add(
        {.name = b.name("running_var"), .shape = {width}, .role = Role::statistic, .constant = 1});
  }
}

ops::NormWeights Norm::weights() const {
  return {kind_,        eps_,          unit_offset_, value(gain_),
          value(bias_), value(alpha_), value(mean_), value(variance_)};
}

}  // namespace plumb
