#include "plumb/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/utf8.h"
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
  o.repetition_penalty = d.repetition_penalty.value_or(o.repetition_penalty);
  if (!d.do_sample.value_or(false)) return o;
  o.temperature = d.temperature.value_or(1);
  o.top_k = d.top_k.value_or(o.top_k);
  o.top_p = d.top_p.value_or(o.top_p);
  o.min_p = d.min_p.value_or(o.min_p);
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

void validate(const GenerateOptions& o) {
  require(o.max_new_tokens >= 1, "max_new_tokens", o.max_new_tokens, "at least 1");
  require(o.temperature >= 0 && std::isfinite(o.temperature), "temperature", o.temperature,
          "a number from 0 on");
  require(o.top_k >= 0, "top_k", o.top_k, "0 (all) or more");
  require(o.top_p >= 0 && o.top_p <= 1, "top_p", o.top_p, "0 to 1");
  require(o.min_p >= 0 && o.min_p <= 1, "min_p", o.min_p, "0 to 1");
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
  return write(writing);
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
