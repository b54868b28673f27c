#include "text/post_processor.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/utf8.h"
#include "plumb/error.h"
#include "text/byte_level.h"

namespace plumb {
namespace {

struct SpecialToken {
  std::vector<int32_t> ids;
  std::vector<std::string> tokens;
};

Encoding added(const SpecialToken& token, int32_t type_id, Wanted wanted) {
  const size_t count = token.ids.size();
  Encoding encoding;
  encoding.ids = token.ids;
  encoding.type_ids.assign(count, type_id);
  encoding.special_mask.assign(count, 1);
  encoding.attention_mask.assign(count, 1);
  encoding.sequence.assign(count, -1);
  if (wanted.offsets) encoding.offsets.assign(count, {});
  if (wanted.tokens) encoding.tokens = token.tokens;
  return encoding;
}

// Puts one before and one behind an encoding and each of its windows.
void surround(Encoding& encoding, const Encoding* before, const Encoding* behind) {
  const auto one = [&](Encoding& part) {
    Encoding result;
    if (before) append(result, *before);
    part.special_mask.assign(part.size(), 0);  // of what an earlier step added too, as in the reference
    append(result, part);
    if (behind) append(result, *behind);
    part = std::move(result);
  };
  std::vector<Encoding> windows = std::move(encoding.overflow);
  encoding.overflow.clear();
  one(encoding);
  for (Encoding& part : windows) one(part);
  encoding.overflow = std::move(windows);
}

// Takes the blanks at a token's ends out of its offsets. prefixed: one blank before the first token was put
// there.
void trim(Encoding& encoding, bool prefixed) {
  const auto is_blank = [](char32_t c) { return is_white_space(c) || c == byte_to_character(' '); };
  for (size_t i = 0; i < encoding.offsets.size(); ++i) {
    const std::string& token = encoding.tokens[i];
    TextSpan& span = encoding.offsets[i];
    uint32_t leading = 0, trailing = 0;
    for (size_t at = 0; at < token.size() && is_blank(next_code_point(token, at));) ++leading;
    for (size_t at = 0; at < token.size();)
      trailing = is_blank(next_code_point(token, at)) ? trailing + 1 : 0;
    if (prefixed && leading == 1 && (i == 0 || span.begin == 0)) leading = 0;
    span.begin = std::min(span.begin + leading, std::max(span.begin, span.end));
    if (trailing > 0 && span.end >= trailing) span.end = std::max(span.end - trailing, span.begin);
  }
}

void trim_all(std::vector<Encoding>& encodings, bool prefixed) {
  for (Encoding& encoding : encodings) {
    trim(encoding, prefixed);
    for (Encoding& part : encoding.overflow) trim(part, prefixed);
  }
}

// ["[SEP]", 102]
SpecialToken read_token(const JsonAt& json, const char* key) {
  const JsonAt pair = json.list(key);
  const Json& value = pair.value();
  if (value.size() != 2 || !value[0].is_string() || !value[1].is_number_unsigned() ||
      value[1].get<uint64_t>() > INT32_MAX)
    json.wrong(key, "a token and its id");
  return {{value[1].get<int32_t>()}, {value[0].get<std::string>()}};
}

PostProcessor read_bert(const JsonAt& json) {
  PostProcessor result;
  result.added[0] = 2;
  result.added[1] = 3;
  result.run = [sep = read_token(json, "sep"), cls = read_token(json, "cls")](
                   std::vector<Encoding>& encodings, bool add_special, Wanted wanted) {
    if (!add_special) return;
    for (size_t i = 0; i < encodings.size(); ++i) {
      const Encoding before = added(cls, 0, wanted), behind = added(sep, i > 0, wanted);
      surround(encodings[i], i == 0 ? &before : nullptr, &behind);
    }
  };
  return result;
}

PostProcessor read_roberta(const JsonAt& json) {
  const bool trims = json.flag("trim_offsets"), prefixed = json.flag("add_prefix_space");
  PostProcessor result;
  result.added[0] = 2;
  result.added[1] = 4;
  result.trims = trims;
  result.run = [=, sep = read_token(json, "sep"), cls = read_token(json, "cls")](
                   std::vector<Encoding>& encodings, bool add_special, Wanted wanted) {
    if (trims && wanted.offsets) trim_all(encodings, prefixed);
    const auto of_type_0 = [](Encoding& encoding) { encoding.type_ids.assign(encoding.size(), 0); };
    for (size_t i = 0; i < encodings.size(); ++i) {
      of_type_0(encodings[i]);
      if (!add_special) continue;
      for (Encoding& part : encodings[i].overflow) of_type_0(part);
      const Encoding before = added(i == 0 ? cls : sep, 0, wanted), behind = added(sep, 0, wanted);
      surround(encodings[i], &before, &behind);
    }
  };
  return result;
}

PostProcessor read_byte_level(const JsonAt& json) {
  const bool prefixed = json.flag("add_prefix_space");
  json.flag("use_regex", true);
  PostProcessor result;
  result.trims = json.flag("trim_offsets");
  result.run = [trims = result.trims, prefixed](std::vector<Encoding>& encodings, bool, Wanted wanted) {
    if (trims && wanted.offsets) trim_all(encodings, prefixed);
  };
  return result;
}

// A place of a template: one of the texts, or a special token.
struct Slot {
  size_t text = 0;
  const SpecialToken* special = nullptr;
  int32_t type_id = 0;
};

using SpecialTokens = std::map<std::string, SpecialToken>;

SpecialTokens read_special_tokens(const JsonAt& json) {
  SpecialTokens result;
  const JsonAt all = json.object("special_tokens");
  for (const auto& [name, ignored] : all.value().items()) {
    const JsonAt entry = all.object(name.c_str());
    const JsonAt ids = entry.list("ids"), tokens = entry.list("tokens");
    if (ids.size() != tokens.size()) entry.malformed("\"ids\" and \"tokens\" differ in length");
    SpecialToken& token = result[name];
    for (size_t i = 0; i < ids.size(); ++i) {
      const Json& id = ids.value()[i];
      if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX) ids.item(i).malformed("expected an id");
      if (!tokens.value()[i].is_string()) tokens.item(i).malformed("expected a string");
      token.ids.push_back(id.get<int32_t>());
      token.tokens.push_back(tokens.value()[i].get<std::string>());
    }
  }
  return result;
}

std::vector<Slot> read_template(const JsonAt& json, const char* key, const SpecialTokens& special) {
  const JsonAt list = json.list(key);
  std::vector<Slot> slots;
  for (size_t i = 0; i < list.size(); ++i) {
    const JsonAt entry = list.item(i);
    Slot slot;
    if (entry.has("Sequence")) {
      const JsonAt text = entry.object("Sequence");
      const std::string id = text.text("id");
      if (id != "A" && (id != "B" || std::string_view(key) == "single"))
        text.wrong("id", std::string_view(key) == "single" ? "A" : "A or B");
      slot.text = id == "B";
      slot.type_id = text.id("type_id");
    } else {
      const JsonAt token = entry.object("SpecialToken");
      const auto place = special.find(token.text("id"));
      if (place == special.end())
        token.malformed(fmt::format("{} is not among the special_tokens", quote_json(token.text("id"))));
      slot.special = &place->second;
      slot.type_id = token.id("type_id");
    }
    slots.push_back(slot);
  }
  return slots;
}

size_t count_special(const std::vector<Slot>& slots) {
  size_t count = 0;
  for (const Slot& slot : slots) count += slot.special ? slot.special->ids.size() : 0;
  return count;
}

PostProcessor read_templates(const JsonAt& json) {
  struct Templates {
    SpecialTokens special;
    std::vector<Slot> of[2];
  };
  const auto templates = std::make_shared<Templates>();
  templates->special = read_special_tokens(json);
  templates->of[0] = read_template(json, "single", templates->special);
  templates->of[1] = read_template(json, "pair", templates->special);
  PostProcessor result;
  for (const size_t pair : {0, 1}) result.added[pair] = count_special(templates->of[pair]);
  result.run = [templates](std::vector<Encoding>& encodings, bool add_special, Wanted wanted) {
    if (encodings.empty() || encodings.size() > 2)
      throw Error(ErrorKind::input, "a template cannot follow one that has made other than one or two parts");
    std::vector<Encoding> filled;
    for (const Slot& slot : templates->of[encodings.size() - 1]) {
      if (!slot.special) {
        filled.push_back(encodings[slot.text]);
        filled.back().type_ids.assign(filled.back().size(), slot.type_id);
      } else if (add_special) {
        filled.push_back(added(*slot.special, slot.type_id, wanted));
      }
    }
    encodings = std::move(filled);
  };
  return result;
}

PostProcessor read_sequence(const JsonAt& json) {
  const JsonAt list = json.list("processors");
  std::vector<PostProcessor> steps;
  PostProcessor result;
  steps.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    steps.push_back(read_post_processor(list.item(i)));
    for (const size_t pair : {0, 1}) result.added[pair] += steps.back().added[pair];
    result.trims = result.trims || steps.back().trims;
  }
  result.run = [steps](std::vector<Encoding>& encodings, bool add_special, Wanted wanted) {
    for (const PostProcessor& step : steps) step.run(encodings, add_special, wanted);
  };
  return result;
}

// Files of versions that wrote no type have the keys of one.
std::string type_of(const JsonAt& json) {
  if (json.has("type")) return json.text("type");
  if (json.has("sep")) return json.has("trim_offsets") ? "RobertaProcessing" : "BertProcessing";
  if (json.has("single")) return "TemplateProcessing";
  if (json.has("processors")) return "Sequence";
  json.malformed("a post-processor without a type");
}

}  // namespace

PostProcessor read_post_processor(const JsonAt& json) {
  const std::string type = type_of(json);
  if (type == "TemplateProcessing") return read_templates(json);
  if (type == "BertProcessing") return read_bert(json);
  if (type == "RobertaProcessing") return read_roberta(json);
  if (type == "ByteLevel") return read_byte_level(json);
  if (type == "Sequence") return read_sequence(json);
  json.unknown("post-processor", type);
}

}  // namespace plumb
