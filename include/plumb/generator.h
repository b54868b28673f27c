// Writes text with a decoder, or turns a text into another with an encoder-decoder.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plumb/config_fields.h"
#include "plumb/model.h"
#include "plumb/tokenizer.h"

namespace plumb {

// When beam search ends, once there are as many finished texts as beams: at once (yes), when none that runs
// can be expected to do better at its present length (no), or at any length (never).
enum class EarlyStopping { no, yes, never };
template <>
struct EnumNames<EarlyStopping> {
  static constexpr std::array names{"no", "yes", "never"};
};

struct GenerateOptions {
  int64_t max_new_tokens = 256;
  int64_t min_new_tokens = 0;
  double temperature = 0;  // 0: greedy, ties to the lowest id
  int64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double typical_p = 1;
  double epsilon_cutoff = 0;
  double eta_cutoff = 0;
  double xtc_probability = 0;
  double xtc_threshold = 0.1;
  double mirostat_tau = 0;
  double mirostat_eta = 0.1;
  double repetition_penalty = 1;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  int64_t no_repeat_ngram = 0;
  double dry_multiplier = 0;
  double dry_base = 1.75;
  int64_t dry_allowed = 2;
  int64_t dry_range = 0;
  std::vector<std::string> dry_breakers = {"\n", ":", "\"", "*"};
  std::vector<int64_t> suppress;
  std::vector<std::string> logit_bias;
  uint64_t seed = 0;
  int64_t beams = 1;
  int64_t beam_groups = 1;
  double diversity_penalty = 0;
  double length_penalty = 1;
  EarlyStopping early_stopping = EarlyStopping::no;
  int64_t results = 1;
  int64_t log_probabilities = 0;
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
  v("min_new_tokens", o.min_new_tokens, "fewest tokens before one that ends a text");
  v("temperature", o.temperature, "0: always the likeliest token; above: sample, the wilder the higher");
  v("top_k", o.top_k, "sample among this many likeliest tokens (0: all)");
  v("top_p", o.top_p, "sample among the likeliest tokens that together have this probability");
  v("min_p", o.min_p, "sample among tokens at least this fraction as likely as the likeliest");
  v("typical_p", o.typical_p,
    "sample among tokens of typical information that together have this probability");
  v("epsilon_cutoff", o.epsilon_cutoff, "sample among tokens at least this probable (0: all)");
  v("eta_cutoff", o.eta_cutoff, "the same, with a bound that falls as the choice is more open (0: all)");
  v("xtc_probability", o.xtc_probability,
    "how often all but the least of the likely tokens are left out (XTC)");
  v("xtc_threshold", o.xtc_threshold, "probability from which a token is a likely one there");
  v("mirostat_tau", o.mirostat_tau,
    "bits that a token should have on average, kept so by Mirostat 2 (0: off)");
  v("mirostat_eta", o.mirostat_eta, "how fast Mirostat follows");
  v("repetition_penalty", o.repetition_penalty, "make tokens that were there before less likely (1: no)");
  v("presence_penalty", o.presence_penalty, "taken off the logit of tokens that were written before");
  v("frequency_penalty", o.frequency_penalty, "taken off for each time that a token was written before");
  v("no_repeat_ngram", o.no_repeat_ngram, "never write as many tokens again as were there in a row (0: may)");
  v("dry_multiplier", o.dry_multiplier,
    "penalty on a token that makes a copy of earlier text longer (DRY; 0: none)");
  v("dry_base", o.dry_base, "what that grows by with each token of the copy");
  v("dry_allowed", o.dry_allowed, "tokens of a copy before the penalty begins");
  v("dry_range", o.dry_range, "newest tokens that copies are looked for in (0: all)");
  v("dry_breakers", o.dry_breakers, "texts that a copy does not reach across");
  v("suppress", o.suppress, "ids that are never written");
  v("logit_bias", o.logit_bias, "ID=X: added to the logit of a token");
  v("seed", o.seed, "equal seeds give equal texts");
  v("beams", o.beams,
    "texts that are followed side by side, of which the likeliest are given (1: no search)");
  v("beam_groups", o.beam_groups, "groups of beams, each made to differ from those before it");
  v("diversity_penalty", o.diversity_penalty,
    "taken off a token's score for each group that has just chosen it");
  v("length_penalty", o.length_penalty, "a text's score is its log-probability by its length to this power");
  v("early_stopping", o.early_stopping,
    "end when as many texts as beams have ended, or only when none can do better");
  v("results", o.results, "texts for each prompt, the best beams first");
  v("log_probabilities", o.log_probabilities,
    "with each token its log-probability and those of so many likeliest, before penalties (0: none)");
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

// Of a token that was written, in nats, by the model alone.
struct TokenProbability {
  double log_probability = 0;
  std::vector<std::pair<int32_t, double>> likeliest;  // ids and log-probabilities, descending
};

struct Generated {
  std::vector<int32_t> ids;  // the new tokens, one that ended it included
  std::string text;          // of the new tokens, without special tokens, cut before a stop string
  EndReason end = EndReason::max_new_tokens;
  int64_t prompt_tokens = 0;                       // the encoder's, where there is one
  double prefill_seconds = 0, decode_seconds = 0;  // of the whole batch that it was part of
  double tokens_per_second = 0;                    // of this text, while decoding
  std::vector<TokenProbability> probabilities;     // of each id, where they are asked for
  double score = 0;                                // of a beam: log-probability by length, see length_penalty
  std::vector<Generated> others;                   // where several results are asked for: the next best
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
