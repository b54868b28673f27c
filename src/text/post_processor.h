// The post-processors of tokenizer.json: what is put around the tokens of a text or a pair.
#pragma once

#include <functional>
#include <vector>

#include "text/encoding.h"
#include "text/json_at.h"

namespace plumb {

struct PostProcessor {
  // In: an encoding for each text. Out: any number, which are to be joined. add_special: whether to add
  // tokens.
  std::function<void(std::vector<Encoding>&, bool add_special, Wanted)> run;
  size_t added[2] = {0, 0};  // how many tokens it adds to a text, to a pair
  bool trims = false;        // it needs the tokens as text where offsets are wanted
};

// Error(file) names the entry that is malformed, Error(unsupported) a type that is not known.
PostProcessor read_post_processor(const JsonAt& json);

}  // namespace plumb
