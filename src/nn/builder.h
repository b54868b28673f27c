// What a module is built with: the table its parameters go to, their names' prefix, and how matrices are
// drawn.
#pragma once

#include <string>

#include "nn/parameter.h"
#include "plumb/config.h"

namespace plumb {

struct Builder {
  ParameterTable& table;
  const ModelConfig& config;
  std::string prefix;
  uint64_t* next_site;  // numbers the dropout sites of a model in the order of building

  Builder child(const std::string& name) const {
    return {table, config, prefix.empty() ? name : prefix + "." + name, next_site};
  }
  std::string name(const std::string& leaf) const { return prefix + "." + leaf; }
  uint64_t site() const { return (*next_site)++; }

  // std of a matrix from `inputs` to `outputs`, times its gain. Xavier is per matrix, also inside a fused one
  // (Glorot and Bengio 2010).
  double std(int64_t inputs, int64_t outputs, double gain) const;
};

}  // namespace plumb
