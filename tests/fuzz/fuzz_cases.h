// One case of a fuzzer: bytes taken for a file that holds a tokenizer or a model, or for a text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plumb::fuzz {

// Of files: "gguf", "json" (tokenizer.json), "merges" (merges.txt), "model" (SentencePiece), "tiktoken"
// (lines after those of the 256 bytes), "vocabulary" (vocab.txt). "text", and those of model_cases.h.
const std::vector<std::string>& kinds();

// A file that loads has to encode, decode at once and as a stream alike, and be the same tokenizer after it
// was saved and loaded again; a text has to go through every valid tokenizer of the corpus. plumb::Error is
// the right answer to what is malformed. std::logic_error: not so; anything else that ends it is a fault as
// well.
void run_case(const std::string& kind, std::string_view bytes);

}  // namespace plumb::fuzz
