// TrainOptions as JSON, for checkpoints.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "plumb/trainer.h"

namespace plumb {

OrderedJson options_json(const TrainOptions& options);

// How `options` differ from saved ones: "--lr 0.001 instead of 0.002".
std::vector<std::string> option_changes(const Json& saved, const TrainOptions& options);

}  // namespace plumb
