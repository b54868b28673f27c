#include "plumb/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/utf8.h"
#include "infer/token_rules.h"
#include "infer/writing.h"
#include "plumb/error.h"
#include "text/prompt.h"

namespace plumb {
namespace {

using Ids = std::vector<int32_t>;

void require(bool holds, const char* name, const auto& got, const char* expected) {
  if (!holds) throw Error(ErrorKind::usage, fmt::format("{} is {}, expected {}", name, got, expected));
}

GenerateOptions options_of(const GenerationDefaults& d) {
  GenerateOptions o;
  if (d.max_new_tokens) o.max_new_tokens = *d.max_new_tokens;
  o.min_new_tokens = d.min_new_tokens.value_or(o.min_new_tokens);
  o.repetition_penalty = d.repetition_penalty.value_or(o.repetition_penalty);
  o.no_repeat_ngram = d.no_repeat_ngram.value_or(o.no_repeat_ngram);
  o.length_penalty = d.length_penalty.value_or(o.length_penalty);
  const std::string early = d.early_stopping.value_or("false");
  o.early_stopping = early == "never"  ? EarlyStopping::never
                     : early == "true" ? EarlyStopping::yes
                                       : EarlyStopping::no;
  if (!d.do_sample.value_or(false)) {
    o.beams = d.beams.value_or(o.beams);
    o.beam_groups = d.beam_groups.value_or(o.beam_groups);
    o.diversity_penalty = d.diversity_penalty.value_or(o.diversity_penalty);
    o.results = d.results.value_or(o.results);
  }
  if (!d.do_sample.value_or(false)) return o;
  o.temperature = d.temperature.value_or(1);
  o.top_k = d.top_k.value_or(o.top_k);
  o.top_p = d.top_p.value_or(o.top_p);
  o.min_p = d.min_p.value_or(o.min_p);
  o.typical_p = d.typical_p.value_or(o.typical_p);
  o.epsilon_cutoff = d.epsilon_cutoff.value_or(o.epsilon_cutoff);
  o.eta_cutoff = d.eta_cutoff.value_or(o.eta_cutoff);
  return o;
}

// What the files leave open, the tokenizer may know.
GenerationDefaults completed(GenerationDefaults d, const Tokenizer& tokenizer) {
  if (d.eos_ids.empty()) {
    if (const auto eos = tokenizer.special(TokenRole::eos)) d.eos_ids.push_back(*eos);
  }
  if (d.bos_id < 0) d.bos_id = tokenizer.special(TokenRole::bos).value_or(-1);
  return d;
}

void check_forced(const GenerationDefaults& d, int64_t vocabulary) {
  const std::pair<const char*, int64_t> forced[] = {{"forced_bos_token_id", d.forced_bos_id},
                                                    {"forced_eos_token_id", d.forced_eos_id}};
  for (const auto& [name, id] : forced) {
    if (id >= vocabulary)
      throw Error(
          ErrorKind::config,
          fmt::format("{} of the model's files is {}, outside the vocabulary of {}", name, id, vocabulary));
  }
}

}  // namespace

std::string_view end_reason_name(EndReason reason) {
  switch (reason) {
    case EndReason::eos:
      return "eos";
    case EndReason::stop:
      return "stop";
    case EndReason::max_new_tokens:
      return "max_new_tokens";
    case EndReason::max_length:
      return "max_length";
  }
  return "?";
}

namespace {

void validate_beams(const GenerateOptions& o) {
  constexpr int64_t kMostBeams = 1024;
  require(o.beams >= 1 && o.beams <= kMostBeams, "beams", o.beams, "1 to 1024");
  require(o.beam_groups >= 1 && o.beams % o.beam_groups == 0, "beam_groups", o.beam_groups,
          "at least 1, and a divisor of beams");
  require(o.diversity_penalty >= 0 && std::isfinite(o.diversity_penalty), "diversity_penalty",
          o.diversity_penalty, "a number from 0 on");
  require(std::isfinite(o.length_penalty), "length_penalty", o.length_penalty, "a number");
  require(o.results >= 1 && o.results <= o.beams, "results", o.results, "1 to the number of beams");
  if (o.beams > 1 && o.temperature > 0)
    throw Error(ErrorKind::usage,
                fmt::format("beams is {}, and temperature {}: beam search draws nothing, so it goes "
                            "with temperature 0",
                            o.beams, o.temperature));
}

void validate_writing_rules(const GenerateOptions& o) {
  require(o.xtc_probability >= 0 && o.xtc_probability <= 1, "xtc_probability", o.xtc_probability, "0 to 1");
  require(o.xtc_threshold > 0 && o.xtc_threshold <= 1, "xtc_threshold", o.xtc_threshold, "above 0, up to 1");
  require(o.mirostat_tau >= 0 && std::isfinite(o.mirostat_tau), "mirostat_tau", o.mirostat_tau,
          "a number from 0 on");
  require(o.mirostat_eta > 0 && o.mirostat_eta <= 1, "mirostat_eta", o.mirostat_eta, "above 0, up to 1");
  require(o.dry_multiplier >= 0 && std::isfinite(o.dry_multiplier), "dry_multiplier", o.dry_multiplier,
          "a number from 0 on");
  require(o.dry_base >= 1 && std::isfinite(o.dry_base), "dry_base", o.dry_base, "a number from 1 on");
  require(o.dry_allowed >= 1, "dry_allowed", o.dry_allowed, "at least 1");
  require(o.dry_range >= 0, "dry_range", o.dry_range, "0 (all) or more");
  require(o.log_probabilities >= 0, "log_probabilities", o.log_probabilities, "0 (none) or more");
  if (o.log_probabilities > 0 && o.beams > 1)
    throw Error(ErrorKind::usage, "log_probabilities and beams do not go together: a beam has a score");
  for (const std::string& bias : o.logit_bias) parse_bias(bias);
}

}  // namespace

void validate(const GenerateOptions& o) {
  require(o.max_new_tokens >= 1, "max_new_tokens", o.max_new_tokens, "at least 1");
  require(o.temperature >= 0 && std::isfinite(o.temperature), "temperature", o.temperature,
          "a number from 0 on");
  require(o.top_k >= 0, "top_k", o.top_k, "0 (all) or more");
  require(o.top_p >= 0 && o.top_p <= 1, "top_p", o.top_p, "0 to 1");
  require(o.min_p >= 0 && o.min_p <= 1, "min_p", o.min_p, "0 to 1");
  require(o.min_new_tokens >= 0, "min_new_tokens", o.min_new_tokens, "0 or more");
  require(o.typical_p > 0 && o.typical_p <= 1, "typical_p", o.typical_p, "above 0, up to 1");
  require(o.epsilon_cutoff >= 0 && o.epsilon_cutoff < 1, "epsilon_cutoff", o.epsilon_cutoff, "0 to below 1");
  require(o.eta_cutoff >= 0 && o.eta_cutoff < 1, "eta_cutoff", o.eta_cutoff, "0 to below 1");
  require(std::isfinite(o.presence_penalty), "presence_penalty", o.presence_penalty, "a number");
  require(std::isfinite(o.frequency_penalty), "frequency_penalty", o.frequency_penalty, "a number");
  require(o.no_repeat_ngram >= 0, "no_repeat_ngram", o.no_repeat_ngram, "0 (may repeat) or more");
  validate_beams(o);
  validate_writing_rules(o);
  require(o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty), "repetition_penalty",
          o.repetition_penalty, "a number above 0");
  require(o.prefill_chunk >= 0, "prefill_chunk", o.prefill_chunk, "0 (all at once) or more");
  for (const std::string& stop : o.stop) {
    require(!stop.empty(), "stop", "an empty text", "at least one character");
    require(utf8_fault(stop) == kUtf8Valid, "stop", "not UTF-8", "UTF-8 text");
  }
}

struct Generator::Impl {
  const Model& model;
  const Tokenizer& tokenizer;
  GenerationDefaults defaults;
  GenerateOptions options;
  RunObserver* observer = nullptr;

  const ModelConfig& config() const { return model.config(); }
  int64_t decoder_start() const;
  int32_t first_token() const;
  Ids encoded(std::string_view text) const;
  std::vector<Generated> run(std::vector<Ids> inputs, const GenerateOptions& o, OnText on_text) const;
};

int64_t Generator::Impl::decoder_start() const {
  const int64_t id = defaults.decoder_start_id >= 0 ? defaults.decoder_start_id : config().decoder_start_id;
  if (id >= 0) return id;
  throw Error(
      ErrorKind::config,
      "the model's files do not say what its decoder starts from: add decoder_start_token_id to config.json");
}

int32_t Generator::Impl::first_token() const {
  if (defaults.bos_id >= 0) return static_cast<int32_t>(defaults.bos_id);
  if (!defaults.eos_ids.empty()) return static_cast<int32_t>(defaults.eos_ids[0]);
  throw Error(ErrorKind::input, "the prompt is empty, and the model has no token that a text starts from");
}

// What the model reads for a text.
Ids Generator::Impl::encoded(std::string_view text) const {
  Ids ids = config().has_encoder() ? tokenizer.encode(text) : prompt_ids(tokenizer, text);
  if (config().has_encoder()) {
    const auto& ends = defaults.eos_ids;
    if (!ends.empty() && (ids.empty() || ids.back() != ends[0])) ids.push_back(static_cast<int32_t>(ends[0]));
  }
  if (ids.empty()) ids.push_back(first_token());
  return ids;
}

std::vector<Generated> Generator::Impl::run(std::vector<Ids> inputs, const GenerateOptions& o,
                                            OnText on_text) const {
  validate(o);
  for (const Ids& ids : inputs) {
    if (ids.empty()) throw Error(ErrorKind::input, "a prompt of no tokens: give at least one");
  }
  Writing writing{.model = model.transformer(),
                  .tokenizer = tokenizer,
                  .defaults = defaults,
                  .options = o,
                  .on_text = std::move(on_text),
                  .observer = observer};
  if (config().has_encoder()) {
    writing.prompts.assign(inputs.size(), {static_cast<int32_t>(decoder_start())});
    writing.sources = std::move(inputs);
  } else {
    writing.prompts = std::move(inputs);
  }
  return o.beams > 1 ? search(writing) : write(writing);
}

Generator::Generator(const Model& model, const Tokenizer& tokenizer) {
  const ModelConfig& c = model.config();
  if (!c.has_decoder() || c.head != Head::language_model) {
    throw Error(ErrorKind::unsupported, fmt::format("a model without {} cannot write text",
                                                    c.has_decoder() ? "a language-model head" : "a decoder"));
  }
  const GenerationDefaults defaults = completed(model.generation(), tokenizer);
  check_forced(defaults, std::min<int64_t>(c.vocab_size, tokenizer.vocab_size()));
  impl_ = std::make_unique<Impl>(Impl{model, tokenizer, defaults, options_of(defaults)});
}

Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;
Generator& Generator::operator=(Generator&&) noexcept = default;

void Generator::watch(RunObserver* observer) {
  impl_->observer = observer;
}

const GenerateOptions& Generator::defaults() const {
  return impl_->options;
}

Generated Generator::generate(std::string_view prompt, const GenerateOptions& options,
                              const OnText& on_text) const {
  return impl_->run({impl_->encoded(prompt)}, options, on_text)[0];
}

std::vector<Generated> Generator::generate(const std::vector<std::string>& prompts,
                                           const GenerateOptions& options) const {
  std::vector<Ids> inputs;
  inputs.reserve(prompts.size());
  for (const std::string& prompt : prompts) inputs.push_back(impl_->encoded(prompt));
  return impl_->run(std::move(inputs), options, {});
}

std::vector<Generated> Generator::generate_ids(const std::vector<Ids>& prompts,
                                               const GenerateOptions& options) const {
  return impl_->run(prompts, options, {});
}

}  // namespace plumb
