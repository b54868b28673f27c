// The pre-tokenizers of tokenizer.json: where a text is cut.
#pragma once

#include <functional>

#include "text/json_at.h"
#include "text/pieces.h"

namespace plumb {

struct PreTokenizer {
  std::function<void(Pieces&)> cut;
  bool needs_places = false;  // it asks where in the caller's text a piece begins
  // The last step spells bytes as characters; `cut_bytes` does all but that.
  bool spells_bytes = false;
  std::function<void(Pieces&)> cut_bytes;
};

// Error(file) names the entry that is malformed, Error(unsupported) a type that is not known.
PreTokenizer read_pre_tokenizer(const JsonAt& json);

}  // namespace plumb
