// The normalizers of tokenizer.json: what is done to a text before it is cut.
#pragma once

#include <functional>

#include "text/aligned.h"
#include "text/json_at.h"

namespace plumb {

using Normalizer = std::function<void(Aligned&)>;

// Error(file) names the entry that is malformed, Error(unsupported) a type that is not known.
Normalizer read_normalizer(const JsonAt& json);

}  // namespace plumb
