#include "infer/token_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "infer/cutoffs.h"
#include "infer/logits.h"
#include "plumb/error.h"

namespace plumb {

namespace {

// Of each token whether its text has one of the breakers in it.
std::vector<bool> breaker_tokens(const Tokenizer& tokenizer, const std::vector<std::string>& breakers) {
  std::vector<bool> is_breaker(tokenizer.vocab_size());
  for (size_t id = 0; id < is_breaker.size(); ++id) {
    const std::vector<int32_t> ids{static_cast<int32_t>(id)};
    const std::string text = tokenizer.decode(ids);
    is_breaker[id] = std::any_of(breakers.begin(), breakers.end(),
                                 [&](const std::string& b) { return text.find(b) != text.npos; });
  }
  return is_breaker;
}

}  // namespace

std::pair<int64_t, double> parse_bias(const std::string& text) {
  int64_t id = 0;
  double bias = 0;
  const size_t sign = text.find('=');
  const char *begin = text.data(), *end = text.data() + text.size();
  const bool good = sign != text.npos && std::from_chars(begin, begin + sign, id).ptr == begin + sign &&
                    std::from_chars(begin + sign + 1, end, bias).ptr == end && sign + 1 < text.size() &&
                    sign > 0;
  if (!good || id < 0 || !std::isfinite(bias))
    throw Error(ErrorKind::usage, fmt::format("logit_bias is {}, expected ID=X, such as 15=-2.5", text));
  return {id, bias};
}

TokenRules::TokenRules(const GenerateOptions& options, const GenerationDefaults& defaults,
                       const Tokenizer& tokenizer)
    : options_(options), defaults_(defaults) {
  for (const auto& word : defaults.bad_words) {
    if (word.size() != 1 || !is_end(word[0])) bad_words_.push_back(word);
  }
  for (const std::string& text : options.logit_bias) bias_.push_back(parse_bias(text));
  if (options.dry_multiplier == 0) return;
  breakers_ = breaker_tokens(tokenizer, options.dry_breakers);
  copies_ = {.multiplier = options.dry_multiplier,
             .base = options.dry_base,
             .allowed = options.dry_allowed,
             .range = options.dry_range,
             .is_breaker = [this](int32_t id) {
               return id >= 0 && static_cast<size_t>(id) < breakers_.size() && breakers_[id];
             }};
}

bool TokenRules::is_end(int64_t id) const {
  return std::find(defaults_.eos_ids.begin(), defaults_.eos_ids.end(), id) != defaults_.eos_ids.end();
}

void TokenRules::apply(std::span<float> row, const Place& place) const {
  add_bias(row, bias_);
  const std::span<const int32_t> written = place.history.subspan(place.prompt);
  // Above 1 it makes what stands in the source likelier.
  penalize_repetition(row, place.source, 1 / defaults_.encoder_repetition_penalty.value_or(1));
  penalize_repetition(row, place.history, options_.repetition_penalty);
  penalize_presence(row, written, options_.presence_penalty, options_.frequency_penalty);
  penalize_copies(row, place.history, copies_);
  ban_repeated_ngrams(row, place.history, place.history, options_.no_repeat_ngram);
  ban_repeated_ngrams(row, place.history, place.source, defaults_.encoder_no_repeat_ngram.value_or(0));
  ban_words(row, place.history, bad_words_);
  const bool short_of = static_cast<int64_t>(place.history.size()) < defaults_.min_length.value_or(0) ||
                        place.written() < options_.min_new_tokens;
  if (short_of) ban_tokens(row, defaults_.eos_ids);
  if (place.history.size() == 1 && place.written() == 0 && defaults_.forced_bos_id >= 0)
    force_token(row, defaults_.forced_bos_id);
  if (place.written() == place.most - 1 && defaults_.forced_eos_id >= 0)
    force_token(row, defaults_.forced_eos_id);
  ban_tokens(row, defaults_.suppressed);
  ban_tokens(row, options_.suppress);
  const bool after_forced = place.prompt <= 1 && defaults_.forced_bos_id >= 0;
  if (place.written() == (after_forced ? 1 : 0)) ban_tokens(row, defaults_.suppressed_at_begin);
}

void TokenRules::cut(std::span<float> row, double uniform) const {
  scale_temperature(row, options_.temperature);
  keep_top_k(row, options_.top_k);
  keep_top_p(row, options_.top_p);
  keep_min_p(row, options_.min_p);
  keep_typical(row, options_.typical_p);
  keep_probable(row, options_.epsilon_cutoff);
  keep_probable_by_entropy(row, options_.eta_cutoff);
  if (uniform < options_.xtc_probability) rule_out_top(row, options_.xtc_threshold);
}

}  // namespace plumb
