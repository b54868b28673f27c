// adapter_config.json, as PEFT has it.
#pragma once

#include <string>

#include "plumb/adapter.h"

namespace plumb {

struct AdapterConfig {
  AdapterOptions options;  // its alpha is said
  std::string base;        // folder of the model; "": not said
  bool in_out = false;     // whether the maps' matrices are stored (in, out), which PEFT wants to be told
};

// Throws Error(file) for what can't be read, Error(config) for values that mean nothing, Error(unsupported)
// naming the key of a kind of adapter that this is not.
AdapterConfig read_adapter_config(const std::string& folder);
void write_adapter_config(const std::string& folder, const AdapterConfig& config);

// Whether the targets are one regular expression: a name has letters, digits, dots, dashes and underscores.
bool is_pattern(const std::vector<std::string>& targets);

}  // namespace plumb
