// From prompts in token ids to what the model writes: the loop of reading, choosing and stepping.
#pragma once

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
};

std::vector<Generated> write(const Writing& writing);

}  // namespace plumb
