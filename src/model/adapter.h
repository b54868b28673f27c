// Adapters of a model's linear maps: which maps, their parameters in the model's table, and PEFT's file.
#pragma once

#include <cstdint>
#include <string>

#include "model/adapter_config.h"
#include "nn/parameter.h"

namespace plumb {

// Adds an adapter's parameters to those of a model that has its weights, and freezes the others: A drawn from
// U(-1, 1) / sqrt(in) by the seed and its name, B zero, a magnitude as long as the weights of its output are.
// Throws Error(usage) naming a target that is no linear map.
void add_adapter(const ModelConfig& config, ParameterTable& table, const AdapterOptions& options,
                 uint64_t seed);

// The same from adapter_model.safetensors, by the options that adapter_config.json says. A tensor that is
// missing, misshapen, present twice or of no map that the targets name is Error(file). Of maps that newer
// versions of the published code no longer have as modules (routers, routed experts) the file says which.
void load_adapter(const std::string& folder, const ModelConfig& config, ParameterTable& table,
                  const AdapterOptions& options);

// Both files; options as the adapter was made with, base the folder of the model.
void save_adapter(const std::string& folder, const ModelConfig& config, const ParameterTable& table,
                  const AdapterOptions& options, const std::string& base);

// A parameter's value with what its adapter changes in it.
Tensor merged_value(const Parameter& p);

}  // namespace plumb
