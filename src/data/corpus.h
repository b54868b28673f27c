// Text files to a token file, made once and found again.
#pragma once

#include <string>

#include "data/token_file.h"
#include "plumb/dataset.h"

namespace plumb {

// The token file of a text and a tokenizer: reused when it was made from the same bytes by the same tokenizer
// with the same split, else built (beside, then renamed; one process at a time).
TokenFile open_corpus(const std::string& path, const Tokenizer& tokenizer, const TextOptions& options);

}  // namespace plumb
