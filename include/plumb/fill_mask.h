// What a masked-LM encoder puts in place of mask tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/model.h"
#include "plumb/tokenizer.h"

namespace plumb {

struct MaskGuess {
  int32_t id = 0;
  std::string text;
  double probability = 0;
};

// The `count` likeliest tokens for each mask token of the text, as the tokenizer writes it (such as
// "<|mask|>"), likeliest first. Throws Error(input) for a text without one, Error(unsupported) for a model
// that is no encoder with a language-model head or a tokenizer without a mask token. Threads: safe.
std::vector<std::vector<MaskGuess>> fill_masks(const Model& model, const Tokenizer& tokenizer,
                                               std::string_view text, int count = 5);

}  // namespace plumb
