// What a model's generation_config.json says of writing with it, or its config.json where there is none. The
// caller's own wishes come before it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plumb/config.h"

namespace plumb {

// Ids: -1 means none.
struct GenerationDefaults {
  std::vector<int64_t> eos_ids;  // each ends a text
  int64_t bos_id = -1;
  int64_t pad_id = -1;
  int64_t decoder_start_id = -1;  // what an encoder-decoder's decoder begins with
  int64_t forced_bos_id = -1;     // the first new token has to be this one
  int64_t forced_eos_id = -1;     // the token at the last allowed position has to be this one
  // Sequences that must not appear: the last id of one is ruled out where the ids before it have just been
  // written. A sequence of one id that is also an end id has no effect.
  std::vector<std::vector<int64_t>> bad_words;
  std::vector<int64_t> suppressed, suppressed_at_begin;  // ruled out everywhere, or as the first new token
  std::optional<int64_t> min_length;                     // tokens of prompt and text before one that ends it
  std::optional<int64_t> max_new_tokens, min_new_tokens;
  std::optional<bool> do_sample;
  std::optional<double> temperature, top_p, min_p, typical_p, epsilon_cutoff, eta_cutoff;
  std::optional<double> repetition_penalty, encoder_repetition_penalty;
  std::optional<int64_t> top_k, no_repeat_ngram, encoder_no_repeat_ngram;
  std::optional<int64_t> beams, beam_groups, results;
  std::optional<double> length_penalty, diversity_penalty;
  std::optional<std::string> early_stopping;  // "true", "false" or "never"

  bool operator==(const GenerationDefaults&) const = default;
};

// The ids that the model itself names.
GenerationDefaults generation_defaults(const ModelConfig& config);

// The text of a generation_config.json, or of a config.json of the time when that held these keys: keys it
// lacks come from `fallback`, what it asks for and is not done here is named in a warning. Throws Error(file,
// config) naming `name` and the key.
std::string generation_to_json(const GenerationDefaults& defaults);
GenerationDefaults generation_from_json(const std::string& text, const std::string& name,
                                        const GenerationDefaults& fallback);

}  // namespace plumb
