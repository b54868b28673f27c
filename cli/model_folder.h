// What commands take as a model.
#pragma once

#include <string>

#include "plumb/model.h"
#include "plumb/tokenizer.h"

namespace plumb::cli {

// A folder of a model or an adapter, or that of a run, which has one inside.
std::string model_folder(const std::string& given);
// What is in it. Of an adapter's folder the model that it is for, with it: that of --base, or what its
// adapter_config.json says; and the tokenizer from there where the adapter's folder has none.
Model load_model(const std::string& given);
Tokenizer load_tokenizer(const std::string& given);

extern std::string base_folder;  // --base

}  // namespace plumb::cli
