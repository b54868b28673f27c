// What a decoder reads for a text that it is to go on from.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "plumb/tokenizer.h"

namespace plumb {

// The text's ids behind what the tokenizer's file puts before a text, without what it puts after one: the
// text goes on. Whole: not truncated and not padded.
std::vector<int32_t> prompt_ids(const Tokenizer& tokenizer, std::string_view text);

}  // namespace plumb
