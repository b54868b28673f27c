// Writes text with a decoder, or turns a text into another with an encoder-decoder.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/model.h"
#include "plumb/tokenizer.h"

namespace plumb {

struct GenerateOptions {
  int64_t max_new_tokens = 256;
  double temperature = 0;  // 0: greedy, ties to the lowest id
  int64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  uint64_t seed = 0;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  int64_t prefill_chunk = 512;
  // Number of the call's first prompt, where the prompts of one job come in several calls. No flag.
  uint64_t first_prompt = 0;

  bool operator==(const GenerateOptions&) const = default;
};

// Lists every field that users set once: visitor(name, field, help). Names are snake_case in files, dashed as
// flags.
template <class Options, class Visitor>
void visit_generate(Options& o, Visitor&& v) {
  v("max_new_tokens", o.max_new_tokens, "most tokens to write");
  v("temperature", o.temperature, "0: always the likeliest token; above: sample, the wilder the higher");
  v("top_k", o.top_k, "sample among this many likeliest tokens (0: all)");
  v("top_p", o.top_p, "sample among the likeliest tokens that together have this probability");
  v("min_p", o.min_p, "sample among tokens at least this fraction as likely as the likeliest");
  v("repetition_penalty", o.repetition_penalty, "make tokens that were there before less likely (1: no)");
  v("seed", o.seed, "equal seeds give equal texts");
  v("stop", o.stop, "texts that end the writing and are not shown");
  v("ignore_eos", o.ignore_eos, "write on after a token that ends a text");
  v("prefill_chunk", o.prefill_chunk, "tokens of a prompt read at once (0: all)");
}

// Throws Error(usage) naming the first field that is out of range.
void validate(const GenerateOptions& options);

enum class EndReason {
  eos,             // a token that ends a text
  stop,            // one of the stop strings
  max_new_tokens,  // as many as were asked for
  max_length,      // the longest sequence that the model was made for
};
std::string_view end_reason_name(EndReason reason);  // "eos", "stop", "max_new_tokens", "max_length"

struct Generated {
  std::vector<int32_t> ids;  // the new tokens, one that ended it included
  std::string text;          // of the new tokens, without special tokens, cut before a stop string
  EndReason end = EndReason::max_new_tokens;
  int64_t prompt_tokens = 0;                       // the encoder's, where there is one
  double prefill_seconds = 0, decode_seconds = 0;  // of the whole batch that it was part of
  double tokens_per_second = 0;                    // of this text, while decoding
};

class RunObserver;  // internal: Probe::observer() is one

// A source of an encoder-decoder gets the end token behind it, if it has none. An empty prompt of a decoder
// starts from the model's first token (bos, else the end token). Where the model's files say so, bad words
// are never written, and the first or the last token is forced.
//
// A token drawn depends on the seed, its position and the number of the prompt only: not on what is in the
// batch beside it. Text is valid UTF-8 at every moment. Threads: const, and safe from several threads at
// once; model and tokenizer have to outlive it. Throws Error(usage, input, unsupported), such as for a prompt
// that leaves no room below the model's max_length.
class Generator {
 public:
  using OnText = std::function<void(std::string_view piece)>;

  Generator(const Model& model, const Tokenizer& tokenizer);
  ~Generator();
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;

  // Sees each pass: the reading of prompts, chunk by chunk, and each step of writing. Null: nobody. While
  // somebody watches, one call at a time.
  void watch(RunObserver* observer);

  // What the model's generation_config.json says, and the defaults above elsewhere.
  const GenerateOptions& defaults() const;

  // `on_text` gets the text as it becomes certain: never half a character, nor the beginning of what may turn
  // out to be a stop string.
  Generated generate(std::string_view prompt, const GenerateOptions& options,
                     const OnText& on_text = {}) const;
  // Prompts of different lengths together: each ends as it would alone.
  std::vector<Generated> generate(const std::vector<std::string>& prompts,
                                  const GenerateOptions& options) const;
  // The same from token ids as they are: nothing is added to them.
  std::vector<Generated> generate_ids(const std::vector<std::vector<int32_t>>& prompts,
                                      const GenerateOptions& options) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plumb
