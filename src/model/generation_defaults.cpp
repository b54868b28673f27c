#include "model/generation_defaults.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/log.h"
#include "model/json_fields.h"

namespace plumb {
namespace {

// What other engines act on and this one does not, with the value that asks for nothing.
struct Foreign {
  const char* key;
  Json neutral;
};

void warn_of_foreign_keys(const JsonFields& fields) {
  const Foreign foreign[] = {
      {"penalty_alpha", nullptr},   {"sequence_bias", nullptr}, {"exponential_decay_length_penalty", nullptr},
      {"guidance_scale", nullptr},  {"top_h", nullptr},         {"watermarking_config", nullptr},
      {"renormalize_logits", false}};
  for (const Foreign& f : foreign) {
    const Json& value = fields.raw(f.key);
    if (value.is_null() || value == f.neutral) continue;
    log_warning(fmt::format("{} asks for {} = {}, which plumb does not do by itself", fields.name(), f.key,
                            value.dump()));
  }
}

// Every field that a file need not set, by its key there.
template <class Defaults, class Visitor>
void visit_optional(Defaults& d, Visitor&& v) {
  v("min_length", d.min_length);
  v("max_new_tokens", d.max_new_tokens);
  v("min_new_tokens", d.min_new_tokens);
  v("do_sample", d.do_sample);
  v("temperature", d.temperature);
  v("top_k", d.top_k);
  v("top_p", d.top_p);
  v("min_p", d.min_p);
  v("typical_p", d.typical_p);
  v("epsilon_cutoff", d.epsilon_cutoff);
  v("eta_cutoff", d.eta_cutoff);
  v("repetition_penalty", d.repetition_penalty);
  v("encoder_repetition_penalty", d.encoder_repetition_penalty);
  v("no_repeat_ngram_size", d.no_repeat_ngram);
  v("encoder_no_repeat_ngram_size", d.encoder_no_repeat_ngram);
  v("num_beams", d.beams);
  v("num_beam_groups", d.beam_groups);
  v("diversity_penalty", d.diversity_penalty);
  v("length_penalty", d.length_penalty);
  v("num_return_sequences", d.results);
}

void read_optional(const JsonFields& fields, const char* key, std::optional<int64_t>& value) {
  value = fields.optional_integer(key);
}
void read_optional(const JsonFields& fields, const char* key, std::optional<double>& value) {
  value = fields.optional_number(key);
}
void read_optional(const JsonFields& fields, const char* key, std::optional<bool>& value) {
  value = fields.optional_flag(key);
}

std::optional<std::string> early_stopping_of(const JsonFields& fields) {
  const Json& value = fields.raw("early_stopping");
  if (value.is_null()) return std::nullopt;
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value != "never") fields.wrong("early_stopping", "true, false or \"never\"");
  return "never";
}

template <class T>
void write_optional(OrderedJson& j, const char* key, const std::optional<T>& value) {
  if (value) j[key] = *value;
}

void write_id(OrderedJson& j, const char* key, int64_t id) {
  if (id >= 0) j[key] = id;
}

}  // namespace

GenerationDefaults generation_defaults(const ModelConfig& config) {
  return {.eos_ids = config.eos_ids,
          .bos_id = config.bos_id,
          .pad_id = config.pad_id,
          .decoder_start_id = config.decoder_start_id};
}

std::string generation_to_json(const GenerationDefaults& d) {
  OrderedJson j = OrderedJson::object();
  write_id(j, "bos_token_id", d.bos_id);
  if (d.eos_ids.size() == 1) j["eos_token_id"] = d.eos_ids[0];
  if (d.eos_ids.size() > 1) j["eos_token_id"] = d.eos_ids;
  write_id(j, "pad_token_id", d.pad_id);
  write_id(j, "decoder_start_token_id", d.decoder_start_id);
  write_id(j, "forced_bos_token_id", d.forced_bos_id);
  write_id(j, "forced_eos_token_id", d.forced_eos_id);
  if (!d.bad_words.empty()) j["bad_words_ids"] = d.bad_words;
  if (!d.suppressed.empty()) j["suppress_tokens"] = d.suppressed;
  if (!d.suppressed_at_begin.empty()) j["begin_suppress_tokens"] = d.suppressed_at_begin;
  visit_optional(d, [&](const char* key, const auto& value) { write_optional(j, key, value); });
  if (d.early_stopping)
    j["early_stopping"] =
        *d.early_stopping == "never" ? OrderedJson("never") : OrderedJson(*d.early_stopping == "true");
  return dump_json(j) + "\n";
}

GenerationDefaults generation_from_json(const std::string& text, const std::string& name,
                                        const GenerationDefaults& fallback) {
  const JsonFields fields(parse_json(text, name), name);
  GenerationDefaults d = fallback;
  d.bos_id = fields.id("bos_token_id", d.bos_id);
  d.eos_ids = fields.ids("eos_token_id", d.eos_ids);
  d.pad_id = fields.id("pad_token_id", d.pad_id);
  d.decoder_start_id = fields.id("decoder_start_token_id", d.decoder_start_id);
  d.forced_bos_id = fields.id("forced_bos_token_id", d.forced_bos_id);
  d.forced_eos_id = fields.id("forced_eos_token_id", d.forced_eos_id);
  d.bad_words = fields.id_lists("bad_words_ids");
  d.suppressed = fields.ids("suppress_tokens", {});
  d.suppressed_at_begin = fields.ids("begin_suppress_tokens", {});
  visit_optional(d, [&](const char* key, auto& value) { read_optional(fields, key, value); });
  d.early_stopping = early_stopping_of(fields);
  warn_of_foreign_keys(fields);
  return d;
}

}  // namespace plumb
