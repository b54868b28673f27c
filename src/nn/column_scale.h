// Learned factors on the columns of an activation: nGPT's s, 2410.01131. What is stored is s / sqrt(C), so
// that an update of the size that unit vectors of width C get is small against it; s_uv alone is stored as it
// is and used times sqrt(C).
#pragma once

#include <cmath>

#include "nn/builder.h"
#include "ops/scale.h"

namespace plumb {

class ColumnScale {
 public:
  ColumnScale(const Builder& b, const std::string& name, int64_t columns, double stored)
      : stored_(b.table.add({.name = b.prefix.empty() ? name : b.name(name),
                             .shape = {columns},
                             .role = Role::gain,
                             .constant = stored})),
        factor_(std::sqrt(static_cast<double>(b.config.width))) {}

  ops::ColumnFactors factors() const { return {stored_->value, factor_}; }
  Tensor forward(Context& context, const Tensor& x) const {
    return ops::scale_columns(context, x, factors());
  }

 private:
  Parameter* stored_;
  double factor_;
};

}  // namespace plumb
