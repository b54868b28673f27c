// What is done to encodings once the texts are tokens: truncation, padding, joining.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plumb/tokenizer.h"
#include "text/json_at.h"

namespace plumb {

struct Truncation {
  enum class Strategy { longest_first, only_first, only_second };
  size_t max_length = 0;
  size_t stride = 0;  // tokens that a window shares with the one before
  Strategy strategy = Strategy::longest_first;
  bool left = false;  // the beginning is cut off, not the end
};

struct Padding {
  std::optional<size_t> length;  // else the longest of the batch
  size_t multiple = 0;           // rounded up to a multiple of this; 0: not
  int32_t id = 0, type_id = 0;
  std::string token;
  bool left = false;
};

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
