// Cases of a fuzzer that are files of a model: "config" (config.json), "safetensors", "torch"
// (pytorch_model.bin) and "pickle" (the pickle inside one, beside a storage "0" of 24 bytes and "1" of 16).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plumb::fuzz {

const std::vector<std::string>& model_kinds();

// A config that is read has to be one that its family can say again, with the parameters and the cost of a
// model. Every tensor of a file that opens has to be found by its name and to have bytes that can be read.
// What is wrong throws as run_case() says.
void run_model_case(const std::string& kind, std::string_view bytes);

}  // namespace plumb::fuzz
