// A ModelConfig's fields as JSON, for those who read and write parts of one.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "plumb/config.h"

namespace plumb {

OrderedJson config_fields(const ModelConfig& config);  // without runs; unset fields are absent
OrderedJson layer_fields(const LayerConfig& layer);

// Sets the fields that an object names, which may be these only. Throws Error(config) naming `where` and the
// key.
void set_fields(const Json& object, const std::string& where, std::span<const std::string_view> allowed,
                ModelConfig& config);

}  // namespace plumb
