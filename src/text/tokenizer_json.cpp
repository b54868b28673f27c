#include "text/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "plumb/error.h"
#include "text/tokenizer_files.h"

namespace plumb {
namespace {

using Impl = Tokenizer::Impl;

void read_added(const JsonAt& root, Impl& impl) {
  if (!root.has("added_tokens")) return;
  const JsonAt list = root.list("added_tokens");
  const Vocabulary& vocabulary = impl.model->vocabulary();
  std::vector<AddedToken> tokens;
  for (size_t i = 0; i < list.size(); ++i) {
    const JsonAt entry = list.item(i);
    if (!entry.has("id")) entry.malformed("an added token has no id");
    AddedToken token = read_added_token(entry, entry.id("id"));
    // Of a list, two places may have the same content.
    const bool there = vocabulary.token(token.id) == token.content;
    const int32_t known = there ? token.id : vocabulary.find(token.content);
    if (known >= 0 && known != token.id) {
      entry.malformed(fmt::format("the added token {} has id {}, but {} in the vocabulary",
                                  quote_json(token.content), token.id, known));
    }
    if (static_cast<size_t>(token.id) > vocabulary.size() + list.size() + 1024) {
      entry.malformed(fmt::format("the added token {} has id {} behind a vocabulary of {}",
                                  quote_json(token.content), token.id, vocabulary.size()));
    }
    if (known < 0 && vocabulary.has(token.id)) {
      entry.malformed(fmt::format("the added token {} has the id of {}", quote_json(token.content),
                                  quote_json(vocabulary.token(token.id))));
    }
    tokens.push_back(std::move(token));
  }
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && tokens[i].id == tokens[i - 1].id)
      list.malformed(fmt::format("{} and {} have the same id {}", quote_json(tokens[i - 1].content),
                                 quote_json(tokens[i].content), tokens[i].id));
    impl.added.add(std::move(tokens[i]));
  }
}

JsonRows rows_of_model(ModelRows& rows) {
  auto take_id = [&rows](std::string& token, const Json& id) {
    const bool fits = id.is_number_unsigned() && id.get<uint64_t>() <= std::numeric_limits<int32_t>::max() &&
                      !token.empty();
    if (fits) rows.ids.emplace_back(std::move(token), id.get<int32_t>());
    return fits;
  };
  auto take_merge = [&rows, in_order = true](Json& merge) mutable {
    in_order =
        in_order && merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    if (in_order) {
      rows.merges.emplace_back(std::move(merge[0].get_ref<std::string&>()),
                               std::move(merge[1].get_ref<std::string&>()));
    }
    return in_order;
  };
  return {{"model.vocab", "model.merges"}, [=](size_t place, std::string& key, Json& value) mutable {
            return place == 0 ? take_id(key, value) : take_merge(value);
          }};
}

// Names that published tokenizers give their special tokens, the usual one first; only added special tokens
// count.
constexpr std::array<std::array<const char*, 5>, kTokenRoles> kUsualNames = {{
    {"<|startoftext|>", "<s>", "<bos>", "<|begin_of_text|>", "<|endoftext|>"},
    {"<|endoftext|>", "</s>", "<eos>", "<|end_of_text|>", nullptr},
    {"<|pad|>", "<pad>", "[PAD]", nullptr, nullptr},
    {"<|unk|>", "<unk>", "[UNK]", nullptr, nullptr},
    {"<|mask|>", "<mask>", "[MASK]", nullptr, nullptr},
}};

}  // namespace

AddedToken read_added_token(const JsonAt& json, int32_t id) {
  AddedToken token{.id = id, .content = json.text("content", "")};
  if (token.content.empty()) json.malformed("an added token has no content");
  token.special = json.flag("special", false);
  token.normalized = json.flag("normalized", false);
  token.single_word = json.flag("single_word", false);
  token.lstrip = json.flag("lstrip", false);
  token.rstrip = json.flag("rstrip", false);
  token.in_model = json.flag("in_model", false);
  return token;
}

void roles_by_name(Impl& impl) {
  for (size_t role = 0; role < kTokenRoles; ++role) {
    for (const char* name : kUsualNames[role]) {
      const auto match = [&](const AddedToken& token) {
        return name && token.special && token.content == name;
      };
      const auto& added = impl.added.list();
      const auto place = std::find_if(added.begin(), added.end(), match);
      if (place == added.end()) continue;
      impl.roles[role] = place->id;
      break;
    }
  }
}

void Impl::set_part(const std::string& name, const JsonAt& json) {
  if (!json.value().is_object()) json.malformed("expected an object");
  if (name == "truncation") truncation = read_truncation(json);
  if (name == "padding") padding = read_padding(json);
  if (name == "normalizer") normalizer = read_normalizer(json);
  if (name == "pre_tokenizer") pre_tokenizer = read_pre_tokenizer(json);
  if (name == "post_processor") post_processor = read_post_processor(json);
  if (name == "decoder") decoder = read_decoder(json);
  if (name == "model") {
    ReadModel read = read_model(json, pre_tokenizer.spells_bytes);
    model = std::move(read.model);
    reads_bytes = read.reads_bytes;
  } else {
    parts[name] = dump_json(json.value(), -1);
  }
}

void read_tokenizer_json(const std::string& file, Impl& impl) {
  ModelRows rows;
  const Json root = parse_json_file(file, rows_of_model(rows));
  const JsonAt json(root, file, "", &rows);
  if (!root.is_object()) json.malformed("expected an object");
  if (json.has("version") && root["version"] != "1.0") json.wrong("version", "\"1.0\"");
  for (const char* name : kPartNames) {
    if (json.has(name)) impl.set_part(name, json.at(name));
  }
  impl.set_part("model", json.object("model"));
  read_added(json, impl);
}

std::string tokenizer_json(const Impl& impl) {
  OrderedJson added = OrderedJson::array();
  for (const AddedToken& token : impl.added.list()) {
    added.push_back({{"id", token.id},
                     {"content", token.content},
                     {"single_word", token.single_word},
                     {"lstrip", token.lstrip},
                     {"rstrip", token.rstrip},
                     {"normalized", token.normalized},
                     {"special", token.special}});
    if (token.in_model) added.back()["in_model"] = true;
  }
  OrderedJson head = {{"version", "1.0"}};
  for (const std::string name : kPartNames) {
    if (name == "normalizer") head["added_tokens"] = added;
    const auto part = impl.parts.find(name);
    head[name] = part == impl.parts.end() ? OrderedJson(nullptr) : OrderedJson::parse(part->second);
  }
  // The vocabulary is written apart: an ordered object of many keys takes quadratic time.
  std::string text = dump_json(head), options = impl.model->options();
  text.resize(text.size() - 2);        // "\n}"
  options.resize(options.size() - 2);  // "\n}"
  for (size_t line = options.find('\n'); line != std::string::npos; line = options.find('\n', line + 1))
    options.insert(line + 1, "  ");
  return text + ",\n  \"model\": " + options + ",\n    " + impl.model->contents() + "\n  }\n}\n";
}

std::string tokenizer_config_json(const Impl& impl) {
  OrderedJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                        {"clean_up_tokenization_spaces", false}};
  for (size_t role = 0; role < kTokenRoles; ++role) {
    if (!impl.roles[role]) continue;
    config[std::string(kRoleNames[role]) + "_token"] = impl.token(*impl.roles[role]);
  }
  return dump_json(config) + "\n";
}

}  // namespace plumb
