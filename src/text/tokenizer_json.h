// tokenizer.json, the file of the Hugging Face `tokenizers` package, and the roles in the files beside it.
#pragma once

#include <string>

#include "text/tokenizer_impl.h"

namespace plumb {

// Fills an empty Impl, all but what finish() makes, from a file or from a folder's tokenizer.json.
// Error(file) names the entry that is malformed, Error(unsupported) the component that this build does not
// follow.
void read_tokenizer(const std::string& path, Tokenizer::Impl& impl);

// The roles that the names of the special tokens tell.
void roles_by_name(Tokenizer::Impl& impl);

std::string tokenizer_json(const Tokenizer::Impl& impl);
std::string tokenizer_config_json(const Tokenizer::Impl& impl);

}  // namespace plumb
