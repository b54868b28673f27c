// Rules on token ids, the tokenizer and the embedding's rows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "lab/check.h"

namespace plumb {
namespace {

constexpr const char* kIdKeys[] = {"bos_token_id",           "eos_token_id",        "pad_token_id",
                                   "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id"};

std::vector<int64_t> ids_under(const JsonFields& json, const char* key) {
  std::vector<int64_t> ids;
  const Json& value = json.raw(key);
  if (value.is_number_integer()) ids.push_back(value.get<int64_t>());
  if (!value.is_array()) return ids;
  for (const Json& item : value)
    if (item.is_number_integer()) ids.push_back(item.get<int64_t>());
  return ids;
}

std::optional<int64_t> vocabulary(const CheckSubject& s) {
  if (s.config) return s.config->vocab_size;
  return whole(s.json, {"vocab_size"});
}

void outside(const CheckSubject& s, const JsonFields& json, const char* file, Findings& f) {
  const std::optional<int64_t> size = vocabulary(s);
  if (!size || *size < 1) return;
  for (const char* key : kIdKeys) {
    for (const int64_t id : ids_under(json, key)) {
      if (id < -1 || id >= *size)
        f.add(fmt::format("{}: {}", file, key), fmt::format("{}", id), fmt::format("0 to {}", *size - 1));
    }
  }
}

void ids_outside(const CheckSubject& s, Findings& f) {
  outside(s, s.json, "config.json", f);
  if (!s.config || s.config->vocab_size < 1) return;
  const ModelConfig& c = *s.config;
  const auto own = [&](const char* key, int64_t id) {
    if (s.json.has(key) || s.recipe())
      if (id < -1 || id >= c.vocab_size)
        f.add(key, fmt::format("{}", id), fmt::format("0 to {}", c.vocab_size - 1));
  };
  own("bos_id", c.bos_id);
  own("pad_id", c.pad_id);
  own("mask_id", c.mask_id);
  own("decoder_start_id", c.decoder_start_id);
  for (const int64_t id : c.eos_ids) own("eos_ids", id);
}

void generation_ids_outside(const CheckSubject& s, Findings& f) {
  outside(s, s.generation, "generation_config.json", f);
}

std::vector<int64_t> config_ids(const CheckSubject& s, TokenRole role) {
  const auto one = [](int64_t id) { return id >= 0 ? std::vector<int64_t>{id} : std::vector<int64_t>{}; };
  if (!s.config) {
    return role == TokenRole::bos   ? ids_under(s.json, "bos_token_id")
           : role == TokenRole::eos ? ids_under(s.json, "eos_token_id")
           : role == TokenRole::pad ? ids_under(s.json, "pad_token_id")
                                    : std::vector<int64_t>{};
  }
  switch (role) {
    case TokenRole::bos:
      return one(s.config->bos_id);
    case TokenRole::eos:
      return s.config->eos_ids;
    case TokenRole::pad:
      return one(s.config->pad_id);
    case TokenRole::mask:
      return one(s.config->mask_id);
    default:
      return {};
  }
}

void tokenizer_ids_differ(const CheckSubject& s, Findings& f) {
  if (!s.tokenizer) return;
  constexpr std::pair<TokenRole, const char*> kRoles[] = {
      {TokenRole::bos, "bos"}, {TokenRole::eos, "eos"}, {TokenRole::pad, "pad"}, {TokenRole::mask, "mask"}};
  for (const auto& [role, name] : kRoles) {
    const std::vector<int64_t> said = config_ids(s, role);
    const std::optional<int32_t> id = s.tokenizer->special(role);
    if (!id || said.empty() || std::find(said.begin(), said.end(), *id) != said.end()) continue;
    f.add(fmt::format("{} of config and tokenizer", name),
          fmt::format("{} in the config", fmt::join(said, ", ")),
          fmt::format("{} ({}), as in the tokenizer", *id, s.tokenizer->token(*id)));
  }
}

void tokenizer_too_large(const CheckSubject& s, Findings& f) {
  const std::optional<int64_t> size = vocabulary(s);
  if (!s.tokenizer || !size || s.tokenizer->vocab_size() <= *size) return;
  f.add("tokenizer.json", fmt::format("ids up to {}", s.tokenizer->vocab_size() - 1),
        fmt::format("at most {}: the model's vocabulary is {}", *size - 1, *size));
}

// Rows are added to reach a round number; more than that has no tokens.
void vocabulary_too_large(const CheckSubject& s, Findings& f) {
  const std::optional<int64_t> size = vocabulary(s);
  if (!s.tokenizer || !size || *size < 0 || *size > (1 << 28)) return;
  const int64_t spare = *size - s.tokenizer->vocab_size();
  if (spare > 256 && 10 * spare > *size)
    f.add("vocab_size", fmt::format("{}, of which {} rows have no token", *size, spare),
          fmt::format("about {}, as the tokenizer has", s.tokenizer->vocab_size()));
}

// The token embedding's rows that stand for tokens: not padding, not beyond the tokenizer.
struct Rows {
  const CheckTensor* table = nullptr;
  Tensor wide;
  std::vector<int64_t> ids;
  std::vector<double> norms;
};

Rows token_rows(const CheckSubject& s) {
  Rows r;
  for (const CheckTensor& t : s.tensors) {
    const bool table = t.parameter
                           ? t.parameter->name.ends_with("token_embedding.weight")
                           : t.name.ends_with("embed_tokens.weight") || t.name.ends_with("wte.weight") ||
                                 t.name.ends_with("word_embeddings.weight");
    if (table && t.value.shape().rank() == 2 && t.moments.not_finite == 0) r.table = &t;
  }
  if (!r.table) return r;
  r.wide = r.table->f32();
  const int64_t width = r.wide.width();
  const std::vector<int64_t> pad = config_ids(s, TokenRole::pad);
  const int64_t tokens =
      s.tokenizer ? std::min<int64_t>(s.tokenizer->vocab_size(), r.wide.rows()) : r.wide.rows();
  for (int64_t i = 0; i < tokens; ++i) {
    if (std::find(pad.begin(), pad.end(), i) != pad.end()) continue;
    const float* x = r.wide.f32() + i * width;
    r.ids.push_back(i);
    r.norms.push_back(std::sqrt(dot(width, x, x)));
  }
  return r;
}

std::string tokens_words(const CheckSubject& s, const std::vector<int64_t>& ids) {
  std::string words;
  for (size_t i = 0; i < ids.size() && i < 5; ++i) {
    words += (i ? ", " : "") + std::to_string(ids[i]);
    if (s.tokenizer && !s.tokenizer->token(static_cast<int32_t>(ids[i])).empty())
      words += " (" + s.tokenizer->token(static_cast<int32_t>(ids[i])) + ")";
  }
  return ids.size() > 5 ? words + " and " + std::to_string(ids.size() - 5) + " more" : words;
}

void rows_out_of_line(const CheckSubject& s, Findings& f) {
  const Rows r = token_rows(s);
  if (r.ids.size() < 8) return;
  std::vector<double> sorted = r.norms;
  std::nth_element(sorted.begin(), sorted.begin() + sorted.size() / 2, sorted.end());
  const double median = sorted[sorted.size() / 2];
  std::vector<int64_t> odd;
  for (size_t i = 0; i < r.ids.size(); ++i) {
    if (r.norms[i] < 0.05 * median || r.norms[i] > 20 * median) odd.push_back(r.ids[i]);
  }
  if (!odd.empty())
    f.add(r.table->name,
          fmt::format("{} rows have norms off by more than 20 times: {}", odd.size(), tokens_words(s, odd)),
          fmt::format("about {:.3g}, the median", median));
}

void rows_alike(const CheckSubject& s, Findings& f) {
  const Rows r = token_rows(s);
  std::map<uint64_t, int64_t> seen;
  std::vector<int64_t> again;
  for (const int64_t id : r.ids) {
    const auto* bytes = reinterpret_cast<const char*>(r.wide.f32() + id * r.wide.width());
    const size_t size = static_cast<size_t>(r.wide.width()) * sizeof(float);
    if (!seen.emplace(hash_bytes({bytes, size}), id).second) again.push_back(id);
  }
  if (!again.empty())
    f.add(r.table->name, fmt::format("{} rows repeat another: {}", again.size(), tokens_words(s, again)),
          "a row of its own for each token");
}

void generation_eos_differs(const CheckSubject& s, Findings& f) {
  const std::vector<int64_t> there = ids_under(s.generation, "eos_token_id");
  const std::vector<int64_t> here = config_ids(s, TokenRole::eos);
  if (there.empty() || here.empty()) return;
  for (const int64_t id : here)
    if (std::find(there.begin(), there.end(), id) != there.end()) return;
  f.add("generation_config.json: eos_token_id", fmt::format("{}", fmt::join(there, ", ")),
        fmt::format("{}, as in config.json", fmt::join(here, ", ")));
}

void no_decoder_start(const CheckSubject& s, Findings& f) {
  if (s.recipe() || !s.config || !s.config->has_encoder() || !s.config->has_decoder()) return;
  if (s.config->decoder_start_id >= 0 || !ids_under(s.generation, "decoder_start_token_id").empty()) return;
  f.add("config.json", "no decoder_start_token_id", "the id that the decoder was trained to begin with");
}

void no_end(const CheckSubject& s, Findings& f) {
  if (s.recipe() || !s.config || !s.config->has_decoder() || !s.config->eos_ids.empty()) return;
  if (!ids_under(s.generation, "eos_token_id").empty()) return;
  f.add("config.json", "no id ends a text", "eos_token_id");
}

// The loss leaves padding out, and with it the end.
void padding_is_end(const CheckSubject& s, Findings& f) {
  const std::vector<int64_t> pad = config_ids(s, TokenRole::pad), eos = config_ids(s, TokenRole::eos);
  if (s.recipe() || pad.empty() || std::find(eos.begin(), eos.end(), pad[0]) == eos.end()) return;
  f.add("config.json", fmt::format("id {} is both padding and the end of a text", pad[0]), "two ids");
}

void tokenizer_longer(const CheckSubject& s, Findings& f) {
  const Json& longest = s.tokenizer_config.raw("model_max_length");
  if (!s.config || !longest.is_number() || longest.get<double>() > 1e9) return;
  if (s.config->positions != Positions::learned && s.config->positions != Positions::sinusoidal) return;
  if (longest.get<double>() > static_cast<double>(s.config->max_length))
    f.add("tokenizer_config.json: model_max_length", fmt::format("{:.0f}", longest.get<double>()),
          fmt::format("at most {}, the positions that the model has", s.config->max_length));
}

constexpr Rule kRules[] = {
    {"PL601", Severity::error, "A special id of the config lies outside the vocabulary.",
     "transformers, PretrainedConfig; huggingface/transformers#5212",
     "Set the id that the tokenizer gives the token.", ids_outside},
    {"PL602", Severity::warning, "The tokenizer gives a special token another id than the config.",
     "huggingface/transformers#7719, #5212", "Set the config's id to the tokenizer's.", tokenizer_ids_differ},
    {"PL603", Severity::error, "The tokenizer has ids for which the model has no row.",
     "huggingface/transformers, resize_token_embeddings",
     "Take the tokenizer that belongs to the model, or add rows.", tokenizer_too_large},
    {"PL604", Severity::note, "A tenth or more of the vocabulary has no token.",
     "Land and Bartolo 2024, arXiv 2405.05417",
     "Lower vocab_size, or take the tokenizer that belongs to the model.", vocabulary_too_large},
    {"PL605", Severity::warning, "Rows of the embedding look untrained: their norms are far off the others'.",
     "Land and Bartolo 2024, arXiv 2405.05417", "Keep such tokens out of prompts, or train them.",
     rows_out_of_line},
    {"PL606", Severity::warning, "Rows of the embedding are equal: the model cannot tell their tokens apart.",
     "Land and Bartolo 2024, arXiv 2405.05417", "Look for rows that were added and not trained.", rows_alike},
    {"PL607", Severity::error, "A special id of generation_config.json lies outside the vocabulary.",
     "transformers, GenerationConfig", "Set the id that the tokenizer gives the token.",
     generation_ids_outside},
    {"PL608", Severity::warning, "generation_config.json ends texts with other ids than config.json.",
     "transformers, GenerationConfig", "Give both files the same eos_token_id.", generation_eos_differs},
    {"PL609", Severity::warning, "An encoder-decoder does not say which id its decoder begins with.",
     "huggingface/transformers#7719, #5212, #7961", "Set decoder_start_token_id; it is often not bos.",
     no_decoder_start},
    {"PL610", Severity::note, "No id ends a text: writing stops at the length alone.",
     "transformers, GenerationConfig", "Set eos_token_id.", no_end},
    {"PL611", Severity::note,
     "Padding and the end of a text are one id: training that leaves padding out of the loss "
     "never learns to end.",
     "huggingface/transformers, DataCollatorForLanguageModeling", "Give padding an id of its own.",
     padding_is_end},
    {"PL612", Severity::warning, "The tokenizer lets longer texts through than the model has positions for.",
     "transformers, PreTrainedTokenizerBase: model_max_length",
     "Set model_max_length to the number of positions.", tokenizer_longer},
};

}  // namespace

const RuleGroup kVocabularyRules{"vocabulary", kRules};

}  // namespace plumb
