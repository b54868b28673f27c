// How a text is cut for the byte-level BPE of a GGUF: the file names it (tokenizer.ggml.pre) and does not say
// it. The patterns are those of the tokenizer.json that the models were published with; files of ranks and
// vocab.json are cut by them too.
#pragma once

#include <string>
#include <vector>

namespace plumb {

struct GgufPatterns {
  std::vector<std::string> patterns;  // each cuts the pieces of the one before
  bool ignore_merges = false;
  bool add_bos = false;  // where the file does not say
};

// Error(unsupported), beginning with `where`, for a name that is not known.
GgufPatterns gguf_patterns(const std::string& name, const std::string& where);

}  // namespace plumb
