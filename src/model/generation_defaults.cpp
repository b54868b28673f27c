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
  const Foreign foreign[] = {{"num_beams", 1},
                             {"no_repeat_ngram_size", 0},
                             {"encoder_no_repeat_ngram_size", 0},
                             {"suppress_tokens", nullptr},
                             {"begin_suppress_tokens", nullptr},
                             {"typical_p", 1.0},
                             {"penalty_alpha", nullptr},
                             {"encoder_repetition_penalty", 1.0}};
  for (const Foreign& f : foreign) {
    const Json& value = fields.raw(f.key);
    if (value.is_null() || value == f.neutral) continue;
    log_warning(fmt::format("{} asks for {} = {}, which plumb does not do by itself", fields.name(), f.key,
                            value.dump()));
  }
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
  write_optional(j, "max_new_tokens", d.max_new_tokens);
  write_optional(j, "do_sample", d.do_sample);
  write_optional(j, "temperature", d.temperature);
  write_optional(j, "top_k", d.top_k);
  write_optional(j, "top_p", d.top_p);
  write_optional(j, "min_p", d.min_p);
  write_optional(j, "repetition_penalty", d.repetition_penalty);
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
  d.max_new_tokens = fields.optional_integer("max_new_tokens");
  d.do_sample = fields.optional_flag("do_sample");
  d.temperature = fields.optional_number("temperature");
  d.top_k = fields.optional_integer("top_k");
  d.top_p = fields.optional_number("top_p");
  d.min_p = fields.optional_number("min_p");
  d.repetition_penalty = fields.optional_number("repetition_penalty");
  warn_of_foreign_keys(fields);
  return d;
}

}  // namespace plumb
