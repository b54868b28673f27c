// Rules on what a tokenizer does with text: round trips, tokens that nothing reaches, ids, special tokens.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/utf8.h"
#include "lab/check.h"
#include "plumb/error.h"
#include "text/reach.h"

namespace plumb {
namespace {

constexpr std::pair<const char*, const char*> kSamples[] = {
    {"English", "The keeper's lamp hadn't gone out; \"not tonight,\" he said. It cost $1,234.50 (or 3½ %)."},
    {"German", "Die Größe des Straßenfußgängerübergangs war für alle überraschend."},
    {"French", "L'œuvre où naît l'été : « déjà vu », à côté d'Haÿ-les-Roses."},
    {"Vietnamese", "Tiếng Việt có nhiều dấu thanh và chữ ghép."},
    {"Turkish", "İstanbul'da ılık bir ırmak, ığdır ve İğne."},
    {"Russian", "Съешь же ещё этих мягких французских булок."},
    {"Greek", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία."},
    {"Arabic", "نص حكيم له سر قاطع وذو شأن عظيم."},
    {"Hebrew", "דג סקרן שט בים מאוכזב."},
    {"Hindi", "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा।"},
    {"Thai", "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า"},
    {"Chinese", "视野无限广，窗外有蓝天。"},
    {"Japanese", "いろはにほへと チリヌルヲ 色は匂へど"},
    {"Korean", "키스의 고유조건은 입술끼리 만나야 한다."},
    {"pictures", "🦙 👨‍👩‍👧 🇺🇳 ☕️ 👍🏽"},
    {"blanks", "two  blanks,\ta tab,\n\n  two lines and\u00a0a fixed blank "},
    {"program", "for (int i = 0; i < n; ++i) {\n\tx[i] += 0x1F * y->z; // ok?\n}\n"},
    {"special tokens as text", "<s> </s> [CLS] <|endoftext|> <0x0A> ▁ Ġ ##"},
};

std::string shortened(const std::string& text) {
  if (text.size() <= 60) return dump_json(Json(text), -1);
  size_t end = 60;
  while ((text[end] & 0xC0) == 0x80) --end;
  return dump_json(Json(text.substr(0, end)), -1) + "...";
}

struct Trip {
  std::vector<int32_t> ids;
  std::string back;
};

// Calls each(sample, trip) for the samples that can be encoded; those that cannot, for refused(sample, why).
template <typename Each, typename Refused>
void each_trip(const CheckSubject& s, const std::vector<TokenizerSample>& samples, const Each& each,
               const Refused& refused) {
  for (const TokenizerSample& sample : samples) {
    Trip trip;
    try {
      trip.ids = s.tokenizer->encode(sample.text);
    } catch (const Error& error) {
      refused(sample, error.what());
      continue;
    }
    trip.back = s.tokenizer->decode(trip.ids);
    each(sample, trip);
  }
}

std::vector<TokenizerSample> all_samples(const CheckSubject& s) {
  std::vector<TokenizerSample> all = s.samples;
  all.insert(all.end(), s.texts.begin(), s.texts.end());
  return all;
}

bool has_unknown(const CheckSubject& s, const Trip& trip) {
  const std::optional<int32_t> unknown = unknown_token(*s.tokenizer);
  return unknown && std::find(trip.ids.begin(), trip.ids.end(), *unknown) != trip.ids.end();
}

// Around the first character that differs.
void add_difference(const TokenizerSample& sample, const std::string& back, Findings& f) {
  size_t at = 0;
  while (at < std::min(sample.text.size(), back.size()) && sample.text[at] == back[at]) ++at;
  const auto from = [&](const std::string& text) {
    size_t begin = std::min(at, text.size());
    while (begin > 0 && begin < text.size() && (text[begin] & 0xC0) == 0x80) --begin;
    return shortened(text.substr(begin));
  };
  f.add(fmt::format("{}, byte {}", sample.name, at), from(back), from(sample.text));
}

void byte_level_loses(const CheckSubject& s, Findings& f) {
  if (!s.tokenizer || !is_lossless(*s.tokenizer)) return;
  each_trip(
      s, all_samples(s),
      [&](const TokenizerSample& sample, const Trip& trip) {
        const bool prefixed = trip.back == " " + sample.text;  // add_prefix_space
        if (trip.back != sample.text && !prefixed) add_difference(sample, trip.back, f);
      },
      [](const TokenizerSample&, const std::string&) {});
}

void unknown_in(const CheckSubject& s, const std::vector<TokenizerSample>& samples, Findings& f) {
  if (!s.tokenizer) return;
  each_trip(
      s, samples,
      [&](const TokenizerSample& sample, const Trip& trip) {
        if (!has_unknown(s, trip)) return;
        const int32_t unknown = *unknown_token(*s.tokenizer);
        f.add(sample.name,
              fmt::format("{} of {} tokens are {}", std::count(trip.ids.begin(), trip.ids.end(), unknown),
                          trip.ids.size(), s.tokenizer->token(unknown)),
              "tokens for the characters, or bytes to fall back on");
      },
      [&](const TokenizerSample& sample, const std::string& why) {
        f.add(sample.name, "refused: " + why, "tokens for the characters");
      });
}

void unknown_characters(const CheckSubject& s, Findings& f) {
  unknown_in(s, s.samples, f);
}

void unknown_in_own_text(const CheckSubject& s, Findings& f) {
  unknown_in(s, s.texts, f);
}

void text_changes(const CheckSubject& s, Findings& f) {
  if (!s.tokenizer || is_lossless(*s.tokenizer)) return;
  each_trip(
      s, all_samples(s),
      [&](const TokenizerSample& sample, const Trip& trip) {
        if (trip.back != sample.text && !has_unknown(s, trip)) add_difference(sample, trip.back, f);
      },
      [](const TokenizerSample&, const std::string&) {});
}

void repeated_pieces(const CheckSubject& s, Findings& f) {
  if (!s.tokenizer) return;
  for (const auto& [id, other] : repeated_tokens(*s.tokenizer))
    f.add(fmt::format("ids {} and {}", id, other), "both are " + shortened(s.tokenizer->token(id)),
          "a spelling of its own for each id");
}

void unreached(const CheckSubject& s, Findings& f) {
  if (!s.tokenizer) return;
  for (const Unreachable& one : unreachable_tokens(*s.tokenizer))
    f.add(fmt::format("id {}", one.id), fmt::format("{}: {}", shortened(s.tokenizer->token(one.id)), one.why),
          "a text that becomes it");
}

void holes(const CheckSubject& s, Findings& f) {
  if (!s.tokenizer) return;
  const int32_t size = s.tokenizer->vocab_size();
  for (int32_t id = 0; id < size; ++id) {
    if (!s.tokenizer->token(id).empty()) continue;
    const int32_t first = id;
    while (id + 1 < size && s.tokenizer->token(id + 1).empty()) ++id;
    f.add(first == id ? fmt::format("id {}", id) : fmt::format("ids {} to {}", first, id), "no token",
          fmt::format("a token for each id below {}", size));
  }
}

// tokenizer_config.json repeats the added tokens under their ids.
void config_tokens_differ(const CheckSubject& s, Findings& f) {
  const Json& list = s.tokenizer_config.raw("added_tokens_decoder");
  if (!s.tokenizer || !list.is_object()) return;
  for (const auto& [key, entry] : list.items()) {
    const bool number =
        !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
    const std::string content = entry.is_object() && entry.contains("content") && entry["content"].is_string()
                                    ? entry["content"].get<std::string>()
                                    : "";
    const std::string here = number ? s.tokenizer->token(std::stoi(key)) : "";
    const auto flag = entry.is_object() ? entry.find("special") : entry.end();
    if (here != content) {
      f.add("tokenizer_config.json: added_tokens_decoder." + key, shortened(content),
            here.empty() ? "an id of tokenizer.json" : shortened(here) + ", as in tokenizer.json");
    } else if (entry.is_object() && flag != entry.end() && flag->is_boolean() &&
               flag->get<bool>() != s.tokenizer->is_special(std::stoi(key))) {
      f.add("tokenizer_config.json: added_tokens_decoder." + key,
            fmt::format("{} is {}special", shortened(content), flag->get<bool>() ? "" : "not "),
            "what tokenizer.json says");
    }
  }
}

void generation_ids_differ(const CheckSubject& s, Findings& f) {
  if (!s.tokenizer) return;
  constexpr std::pair<TokenRole, const char*> kRoles[] = {
      {TokenRole::bos, "bos_token_id"}, {TokenRole::eos, "eos_token_id"}, {TokenRole::pad, "pad_token_id"}};
  for (const auto& [role, key] : kRoles) {
    const Json& said = s.generation.raw(key);
    const auto id = s.tokenizer->special(role);
    if (!id || said.is_null()) continue;
    const bool agrees =
        said.is_array() ? std::find(said.begin(), said.end(), Json(*id)) != said.end() : said == Json(*id);
    if (!agrees)
      f.add(fmt::format("generation_config.json: {}", key), dump_json(said, -1),
            fmt::format("{} ({}), as in the tokenizer", *id, s.tokenizer->token(*id)));
  }
}

constexpr Rule kRules[] = {
    {"PL901", Severity::error, "A byte-level tokenizer does not give a text back.",
     "Radford 2019, section 2.2 (bytes lose nothing)",
     "Look for bytes without a token, or a decoder that is not ByteLevel.", byte_level_loses},
    {"PL902", Severity::note, "The tokenizer has no tokens for characters of a built-in sample.",
     "Kudo and Richardson 2018, arXiv 1808.06226; huggingface/transformers#28096",
     "Train on text of that script, or with byte fallback; keep such texts away otherwise.",
     unknown_characters},
    {"PL903", Severity::note, "A text comes back changed: the tokenizer folds case, blanks or forms.",
     "google-research/text-to-text-transfer-transformer#390; huggingface/transformers#6150",
     "Nothing, where that is meant; offsets point into the text as it was.", text_changes},
    {"PL904", Severity::warning, "Two ids have the same spelling: only one of them is ever produced.",
     "Land and Bartolo 2024, arXiv 2405.05417", "Give the id that is not produced another spelling.",
     repeated_pieces},
    {"PL905", Severity::note, "No text becomes the token.", "Land and Bartolo 2024, arXiv 2405.05417",
     "Its embedding stays as it began: keep the id out of prompts, or leave the token out.", unreached},
    {"PL906", Severity::note, "Ids below the highest have no token.",
     "huggingface/transformers, resize_token_embeddings", "Number the tokens without gaps.", holes},
    {"PL907", Severity::warning, "tokenizer_config.json and tokenizer.json disagree about an added token.",
     "transformers, PreTrainedTokenizerFast: added_tokens_decoder", "Save both files again together.",
     config_tokens_differ},
    {"PL908", Severity::warning,
     "generation_config.json gives a special token another id than the tokenizer.",
     "huggingface/transformers#7719, #5212", "Set the file's id to the tokenizer's.", generation_ids_differ},
    {"PL909", Severity::warning, "The tokenizer has no tokens for characters of a text that was given.",
     "Kudo and Richardson 2018, arXiv 1808.06226; huggingface/transformers#28096",
     "Train it on such text, or with byte fallback.", unknown_in_own_text},
};

}  // namespace

std::vector<TokenizerSample> built_in_samples() {
  std::vector<TokenizerSample> samples;
  for (const auto& [name, text] : kSamples) samples.push_back({name, text});
  return samples;
}

const RuleGroup kTokenizerRules{"tokenizer", kRules};

}  // namespace plumb
