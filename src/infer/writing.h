// From prompts in token ids to what the model writes: the loop of reading, choosing and stepping.
#pragma once

#include <algorithm>
#include <span>

#include "infer/text_stream.h"
#include "model/generation_defaults.h"
#include "model/transformer.h"
#include "plumb/generator.h"

namespace plumb {

struct Writing {
  const Transformer& model;
  const Tokenizer& tokenizer;
  const GenerationDefaults& defaults;
  const GenerateOptions& options;
  std::vector<std::vector<int32_t>> prompts;  // the decoder's side, each of at least one token
  std::vector<std::vector<int32_t>>
      sources;                 // what the encoder reads, one a prompt; empty where there is none
  TextStream::OnText on_text;  // for one prompt only; may be empty
  RunObserver* observer = nullptr;

  std::span<const int32_t> source(size_t prompt) const {
    return sources.empty() ? std::span<const int32_t>() : sources[prompt];
  }
  // Ids that may be written: the model may have rows for more than there are tokens.
  int64_t vocabulary() const { return std::min<int64_t>(model.config().vocab_size, tokenizer.vocab_size()); }
};

// How many tokens may come behind a prompt, and why no more. Throws Error(input) where none may.
struct Limit {
  int64_t most;
  EndReason end;
};
Limit limit(const Writing& writing, size_t prompt);

// Token by token, each the likeliest or drawn.
std::vector<Generated> write(const Writing& writing);

// By beam search: options.beams texts of each prompt side by side.
std::vector<Generated> search(const Writing& writing);

}  // namespace plumb
