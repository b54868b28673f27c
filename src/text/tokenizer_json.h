// tokenizer.json, the file of the Hugging Face `tokenizers` package, and the roles in the file beside it.
#pragma once

#include <string>

#include "text/tokenizer_impl.h"

namespace plumb {

// Reading is in text/tokenizer_files.h. This is an entry of "added_tokens", but for its id.
AddedToken read_added_token(const JsonAt& json, int32_t id);

// The roles that the names of the special tokens tell.
void roles_by_name(Tokenizer::Impl& impl);

std::string tokenizer_json(const Tokenizer::Impl& impl);
std::string tokenizer_config_json(const Tokenizer::Impl& impl);

}  // namespace plumb
