#include "text/tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "plumb/error.h"

namespace plumb {
namespace {

using Impl = Tokenizer::Impl;

// One file while it is read: every refusal names it.
struct Reader {
  const std::string& path;

  [[noreturn]] void malformed(const std::string& what) const {
    throw Error(ErrorKind::file, fmt::format("{}: {}", path, what));
  }
  [[noreturn]] void unsupported(const std::string& what) const {
    throw Error(ErrorKind::unsupported, fmt::format("{}: {} is not supported by this build", path, what));
  }
  const Json& object(const Json& parent, const char* key) const {
    const auto place = parent.find(key);
    if (place == parent.end() || !place->is_object())
      malformed(fmt::format("\"{}\" is missing or no object", key));
    return *place;
  }
  std::string text(const Json& parent, const char* key, const std::string& fallback) const {
    const auto place = parent.find(key);
    if (place == parent.end() || place->is_null()) return fallback;
    if (!place->is_string())
      malformed(fmt::format("\"{}\" is {}, expected a string", key, dump_json(*place, -1)));
    return place->get<std::string>();
  }
  bool flag(const Json& parent, const char* key, bool fallback) const {
    const auto place = parent.find(key);
    if (place == parent.end() || place->is_null()) return fallback;
    if (!place->is_boolean())
      malformed(fmt::format("\"{}\" is {}, expected true or false", key, dump_json(*place, -1)));
    return place->get<bool>();
  }
  int32_t id(const Json& value, const std::string& of) const {
    if (!value.is_number_integer() || value < 0 || value > std::numeric_limits<int32_t>::max()) {
      malformed(fmt::format("the id of {} is {}, expected a whole number from 0", quote_json(of),
                            dump_json(value, -1)));
    }
    return value.get<int32_t>();
  }
};

bool given(const Json& parent, const char* key) {
  return parent.contains(key) && !parent[key].is_null();
}

void read_vocabulary(const Reader& reader, const Json& model, Impl& impl) {
  const Json& vocab = reader.object(model, "vocab");
  // Ids may have gaps, but not so many that a small file could ask for all memory.
  const size_t most = 2 * vocab.size() + 1024;
  for (const auto& [token, value] : vocab.items()) {
    const int32_t id = reader.id(value, token);
    if (static_cast<size_t>(id) > most)
      reader.malformed(
          fmt::format("{} has id {} in a vocabulary of {}", quote_json(token), id, vocab.size()));
    if (token.empty()) reader.malformed("the vocabulary has an empty token");
    if (static_cast<size_t>(id) < impl.tokens.size() && !impl.tokens[static_cast<size_t>(id)].empty()) {
      reader.malformed(fmt::format("{} and {} have the same id {}",
                                   quote_json(impl.tokens[static_cast<size_t>(id)]), quote_json(token), id));
    }
    impl.add_token(id, token);
  }
}

std::pair<std::string, std::string> merge_halves(const Reader& reader, const Json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  if (merge.is_string()) {  // the older spelling
    const auto& text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  }
  reader.malformed(fmt::format("the merge {} is no pair of tokens", dump_json(merge, -1)));
}

std::vector<BpeMerge> read_merges(const Reader& reader, const Json& model, const Impl& impl) {
  const auto place = model.find("merges");
  if (place == model.end() || !place->is_array()) reader.malformed("\"merges\" is missing or no list");
  std::vector<BpeMerge> merges;
  merges.reserve(place->size());
  const auto id_of = [&](const std::string& token, const Json& merge) {
    const auto found = impl.ids.find(token);
    if (found == impl.ids.end()) {
      reader.malformed(fmt::format("the merge {} needs the token {}, which the vocabulary lacks",
                                   dump_json(merge, -1), quote_json(token)));
    }
    return found->second;
  };
  for (const Json& merge : *place) {
    const auto [left, right] = merge_halves(reader, merge);
    merges.push_back({id_of(left, merge), id_of(right, merge), id_of(left + right, merge)});
  }
  return merges;
}

void read_model(const Reader& reader, const Json& root, Impl& impl) {
  const Json& model = reader.object(root, "model");
  const bool bpe = reader.text(model, "type", model.contains("merges") ? "BPE" : "?") == "BPE";
  if (!bpe)
    reader.unsupported(fmt::format("the tokenizer model {}", dump_json(model.value("type", Json()), -1)));
  for (const char* key : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"}) {
    if (given(model, key) && model[key] != "" && model[key] != 0.0) {
      reader.unsupported(fmt::format("the BPE option \"{}\": {}", key, dump_json(model[key], -1)));
    }
  }
  for (const char* key : {"byte_fallback", "ignore_merges"}) {
    if (reader.flag(model, key, false)) reader.unsupported(fmt::format("the BPE option \"{}\"", key));
  }
  read_vocabulary(reader, model, impl);
  std::array<int32_t, 256> byte_ids;
  for (int byte = 0; byte < 256; ++byte) {
    const auto place = impl.ids.find(spell_bytes(std::string(1, static_cast<char>(byte))));
    byte_ids[static_cast<size_t>(byte)] = place == impl.ids.end() ? -1 : place->second;
  }
  impl.model = Bpe(byte_ids, read_merges(reader, model, impl));
}

void read_added(const Reader& reader, const Json& root, Impl& impl) {
  const auto list = root.find("added_tokens");
  if (list == root.end() || list->is_null()) return;
  if (!list->is_array()) reader.malformed("\"added_tokens\" is no list");
  for (const Json& entry : *list) {
    if (!entry.is_object() || !entry.contains("id")) reader.malformed("an added token has no id");
    const std::string content = reader.text(entry, "content", "");
    if (content.empty()) reader.malformed("an added token has no content");
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      if (reader.flag(entry, key, false)) {
        reader.unsupported(fmt::format("\"{}\" of the added token {}", key, quote_json(content)));
      }
    }
    const int32_t id = reader.id(entry["id"], content);
    const auto known = impl.ids.find(content);
    if (known != impl.ids.end() && known->second != id) {
      reader.malformed(fmt::format("the added token {} has id {}, but {} in the vocabulary",
                                   quote_json(content), id, known->second));
    }
    if (static_cast<size_t>(id) > impl.tokens.size() + list->size() + 1024) {
      reader.malformed(fmt::format("the added token {} has id {} behind a vocabulary of {}",
                                   quote_json(content), id, impl.tokens.size()));
    }
    if (known == impl.ids.end()) {
      if (static_cast<size_t>(id) < impl.tokens.size() && !impl.tokens[static_cast<size_t>(id)].empty()) {
        reader.malformed(fmt::format("the added token {} has the id of {}", quote_json(content),
                                     quote_json(impl.tokens[static_cast<size_t>(id)])));
      }
      impl.add_token(id, content);
    }
    impl.added.push_back({id, content, reader.flag(entry, "special", false)});
  }
  std::sort(impl.added.begin(), impl.added.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
}

// The components around the model: only the byte-level ones, which are exact inverses of each other.
void read_pipeline(const Reader& reader, const Json& root, Impl& impl) {
  for (const char* key : {"normalizer", "truncation", "padding"}) {
    if (!given(root, key)) continue;
    const Json type = root[key].is_object() ? root[key].value("type", Json()) : Json();
    reader.unsupported(type.is_null() ? fmt::format("\"{}\"", key)
                                      : fmt::format("the {} {}", key, dump_json(type, -1)));
  }
  for (const char* key : {"pre_tokenizer", "decoder", "post_processor"}) {
    if (!given(root, key)) {
      if (std::string_view(key) == "post_processor") continue;
      reader.unsupported(fmt::format("a BPE model without a byte-level {}", key));
    }
    const std::string type = reader.text(reader.object(root, key), "type", "?");
    if (type != "ByteLevel") reader.unsupported(fmt::format("the {} \"{}\"", key, type));
  }
  const Json& pre = root["pre_tokenizer"];
  impl.pre_tokenizer.add_prefix_space = reader.flag(pre, "add_prefix_space", true);
  impl.pre_tokenizer.use_regex = reader.flag(pre, "use_regex", true);
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

void roles_by_name(Impl& impl) {
  for (size_t role = 0; role < kTokenRoles; ++role) {
    for (const char* name : kUsualNames[role]) {
      const auto match = [&](const AddedToken& token) {
        return name && token.special && token.content == name;
      };
      const auto place = std::find_if(impl.added.begin(), impl.added.end(), match);
      if (place == impl.added.end()) continue;
      impl.roles[role] = place->id;
      break;
    }
  }
}

// {"eos_token": "</s>"} or {"eos_token": {"content": "</s>", ...}}. False if the file names no role.
bool roles_from_file(const std::string& path, Impl& impl) {
  if (!path_exists(path)) return false;
  const Reader reader{path};
  const Json root = parse_json_file(path);
  if (!root.is_object()) reader.malformed("expected an object");
  bool any = false;
  for (size_t role = 0; role < kTokenRoles; ++role) {
    const std::string key = std::string(kRoleNames[role]) + "_token";
    if (!given(root, key.c_str())) continue;
    const std::string content =
        root[key].is_object() ? reader.text(root[key], "content", "") : reader.text(root, key.c_str(), "");
    const auto place = impl.ids.find(content);
    if (place == impl.ids.end())
      reader.malformed(fmt::format("\"{}\" is {}, which the vocabulary lacks", key, quote_json(content)));
    impl.roles[role] = place->second;
    any = true;
  }
  return any;
}

}  // namespace

void read_tokenizer(const std::string& path, Impl& impl) {
  const std::string file = is_folder(path) ? join_path(path, "tokenizer.json") : path;
  const Json root = parse_json_file(file);
  const Reader reader{file};
  if (!root.is_object()) reader.malformed("expected an object");
  read_pipeline(reader, root, impl);
  read_model(reader, root, impl);
  read_added(reader, root, impl);
  const std::string folder = parent_folder(file);
  if (roles_from_file(join_path(folder, "tokenizer_config.json"), impl)) return;
  if (roles_from_file(join_path(folder, "special_tokens_map.json"), impl)) return;
  roles_by_name(impl);
}

std::string tokenizer_json(const Impl& impl) {
  OrderedJson added = OrderedJson::array();
  for (const AddedToken& token : impl.added) {
    added.push_back({{"id", token.id},
                     {"content", token.content},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", token.special}});
  }
  const OrderedJson byte_level = {{"type", "ByteLevel"},
                                  {"add_prefix_space", impl.pre_tokenizer.add_prefix_space},
                                  {"trim_offsets", true},
                                  {"use_regex", impl.pre_tokenizer.use_regex}};
  const OrderedJson head = {{"version", "1.0"},          {"truncation", nullptr},
                            {"padding", nullptr},        {"added_tokens", added},
                            {"normalizer", nullptr},     {"pre_tokenizer", byte_level},
                            {"post_processor", nullptr}, {"decoder", byte_level}};
  // The vocabulary is written here: an ordered object of many keys takes quadratic time.
  std::string text = dump_json(head);
  text.resize(text.size() - 2);  // "\n}"
  text +=
      ",\n  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n"
      "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": "
      "false,\n"
      "    \"byte_fallback\": false,\n    \"ignore_merges\": false,\n    \"vocab\": {";
  const char* separator = "\n";
  for (size_t id = 0; id < impl.tokens.size(); ++id) {
    if (impl.tokens[id].empty()) continue;
    text += fmt::format("{}      {}: {}", separator, quote_json(impl.tokens[id]), id);
    separator = ",\n";
  }
  text += "\n    },\n    \"merges\": [";
  separator = "\n";
  for (const BpeMerge& merge : impl.model.merges()) {
    text +=
        fmt::format("{}      [{}, {}]", separator, quote_json(impl.tokens[static_cast<size_t>(merge.left)]),
                    quote_json(impl.tokens[static_cast<size_t>(merge.right)]));
    separator = ",\n";
  }
  return text + (impl.model.merges().empty() ? "]" : "\n    ]") + "\n  }\n}\n";
}

std::string tokenizer_config_json(const Impl& impl) {
  OrderedJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                        {"clean_up_tokenization_spaces", false}};
  for (size_t role = 0; role < kTokenRoles; ++role) {
    if (!impl.roles[role]) continue;
    config[std::string(kRoleNames[role]) + "_token"] = impl.tokens[static_cast<size_t>(*impl.roles[role])];
  }
  return dump_json(config) + "\n";
}

}  // namespace plumb
