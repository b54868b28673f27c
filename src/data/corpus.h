// Text files to a token file, made once and found again.
#pragma once

#include <string>

#include "data/token_file.h"
#include "plumb/dataset.h"

namespace plumb {

// The token file of a text and a tokenizer: reused when it was made from the same bytes by the same tokenizer
// with the same split, else built (beside, then renamed; one process at a time). Files whose names, sizes and
// times are as they were are taken to be the same bytes. Building one removes from the cache folder the token
// files that nobody opened for 30 days.
//
// Text is dealt out in blocks that end between words: of every 1 / held_out blocks one, in the middle, is
// held out. A document ends (with the tokenizer's eos) where a file ends and where its next block goes to the
// other part.
TokenFile open_corpus(const std::string& path, const Tokenizer& tokenizer, const TextOptions& options);

}  // namespace plumb
