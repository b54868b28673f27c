// What commands take as a model.
#pragma once

#include <string>

namespace plumb::cli {

// A model's folder, or that of a run, which has the model inside.
std::string model_folder(const std::string& given);

}  // namespace plumb::cli
