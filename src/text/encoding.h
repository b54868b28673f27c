// What is done to encodings once the texts are tokens: truncation, padding, joining.
#pragma once

#include <vector>

#include "plumb/tokenizer.h"
#include "text/json_at.h"

namespace plumb {

Truncation read_truncation(const JsonAt& json);
Padding read_padding(const JsonAt& json);

// Cuts the texts so that they have max_length tokens together. Error(input) where the strategy cannot do it.
void truncate(Encoding& first, Encoding* second, const Truncation& truncation);

// Which of the lists that need not be there are wanted.
struct Wanted {
  bool offsets = false, tokens = false;
};

void pad(std::vector<Encoding>& batch, const Padding& padding, Wanted wanted);

// Puts `more` behind `to`. Every window of one goes with the whole and every window of the other.
void append(Encoding& to, const Encoding& more);

}  // namespace plumb
