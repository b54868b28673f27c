// What a parameter table says of itself, and what a model costs; the public functions of plumb/model.h for a
// table that exists already.
#pragma once

#include <vector>

#include "nn/parameter.h"
#include "plumb/model.h"

namespace plumb {

std::vector<ParameterInfo> parameter_infos(const ModelConfig& config, const ParameterTable& table);
ModelCost model_cost(const ModelConfig& config, const ParameterTable& table, int64_t length);

}  // namespace plumb
