#include "text/tokenizer_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/gguf.h"
#include "plumb/error.h"
#include "text/parts.h"
#include "text/tokenizer_json.h"

namespace plumb {
namespace {

using Impl = Tokenizer::Impl;

// {"eos_token": "</s>"} or {"eos_token": {"content": "</s>", ...}}. False if the file names no role.
bool roles_from(const JsonAt& json, Impl& impl) {
  bool any = false;
  for (size_t place = 0; place < kTokenRoles; ++place) {
    const std::string key = std::string(kRoleNames[place]) + "_token";
    if (!json.has(key.c_str())) continue;
    const JsonAt value = json.at(key.c_str());
    const std::string content =
        value.value().is_object() ? value.text("content", "") : json.text(key.c_str());
    impl.roles[place] = impl.id(content);
    if (!impl.roles[place])
      json.malformed(fmt::format("\"{}\" is {}, which the vocabulary lacks", key, quote_json(content)));
    any = true;
  }
  return any;
}

void set_roles(const std::string& folder, const ConfigBeside& config, Impl& impl) {
  if (roles_from(config.json(), impl)) return;
  const std::string map = join_path(folder, "special_tokens_map.json");
  if (path_exists(map)) {
    const Json root = parse_json_file(map);
    if (roles_from(JsonAt(root, map), impl)) return;
  }
  const bool known = std::any_of(impl.roles.begin(), impl.roles.end(), [](const auto& r) { return !!r; });
  if (!known) roles_by_name(impl);
}

// What a config adds to the tokens of a file that has no added tokens of its own.
void add_tokens(const JsonAt& config, Impl& impl) {
  if (!config.has("added_tokens_decoder")) return;
  const JsonAt all = config.object("added_tokens_decoder");
  const Vocabulary& vocabulary = impl.model->vocabulary();
  const size_t most = vocabulary.size() + all.size() + 1024;
  for (const auto& [name, ignored] : all.value().items()) {
    const JsonAt entry = all.object(name.c_str());
    const bool digits = !name.empty() && name.size() < 10 &&
                        std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits || std::stoul(name) > most) all.malformed(fmt::format("{} is no id", quote_json(name)));
    AddedToken token = read_added_token(entry, static_cast<int32_t>(std::stoul(name)));
    const int32_t known = vocabulary.find(token.content);
    if ((known >= 0 && known != token.id) || (known < 0 && vocabulary.has(token.id)))
      entry.malformed(fmt::format("{} has another id in the vocabulary", quote_json(token.content)));
    const auto& list = impl.added.list();
    if (std::none_of(list.begin(), list.end(), [&](const AddedToken& one) { return one.id == token.id; }))
      impl.added.add(std::move(token));
  }
}

// In a folder: the first of these that is there.
std::optional<std::string> find_file(const std::string& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
                           "sentencepiece.model", "spm.model", "tekken.json"}) {
    if (path_exists(join_path(folder, name))) return join_path(folder, name);
  }
  const std::vector<std::string> names = list_folder(folder);
  for (const char* ending : {".tiktoken", "vocab.json", "vocab.txt", ".gguf"}) {
    const auto ends = [&](const std::string& name) {
      return *ending == '.' ? name.ends_with(ending) : name == ending;
    };
    const auto first = std::find_if(names.begin(), names.end(), ends);
    if (first == names.end()) continue;
    const auto second = std::find_if(first + 1, names.end(), ends);
    if (second != names.end()) {
      throw Error(ErrorKind::file,
                  fmt::format("{} has {} and {}: name the one that is meant", folder, *first, *second));
    }
    return join_path(folder, *first);
  }
  return std::nullopt;
}

std::string file_in(const std::string& folder) {
  if (const auto file = find_file(folder)) return *file;
  throw Error(
      ErrorKind::file,
      fmt::format("{}: there is no tokenizer: no tokenizer.json, tokenizer.model or other SentencePiece "
                  "model, tekken.json, *.tiktoken, vocab.json with merges.txt, vocab.txt or *.gguf",
                  folder));
}

enum class Format { json, tekken, vocabulary_json, sentencepiece, gguf, ranks, vocabulary_text };

// By what the file begins with; of JSON and lines of text, by its name.
Format format_of(const std::string& file) {
  const MappedFile mapped(file);
  const std::string_view bytes = mapped.bytes();
  const std::string name = file.substr(file.rfind('/') + 1);
  if (bytes.empty() && !name.ends_with(".json"))
    throw Error(ErrorKind::file, file + " is empty, expected a tokenizer");
  if (is_gguf(bytes)) return Format::gguf;
  const size_t first = bytes.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (name.ends_with(".json") || (first != std::string_view::npos && bytes[first] == '{')) {
    if (name.starts_with("tekken")) return Format::tekken;
    return name == "vocab.json" ? Format::vocabulary_json : Format::json;
  }
  if (name.ends_with(".txt")) return Format::vocabulary_text;
  // A SentencePiece file begins with the tag of its first piece, a line of ranks with a digit of base64.
  return bytes[0] == '\n'                                                          ? Format::sentencepiece
         : name.find(".tiktoken") != std::string::npos || name.ends_with(".model") ? Format::ranks
                                                                                   : Format::sentencepiece;
}

}  // namespace

ConfigBeside::ConfigBeside(const std::string& file)
    : path_(join_path(parent_folder(file), "tokenizer_config.json")),
      root_(std::make_shared<Json>(Json::object())) {
  if (!path_exists(path_)) return;
  *root_ = parse_json_file(path_);
  if (!root_->is_object()) json().malformed("expected an object");
}

std::string ConfigBeside::tokenizer_class() const {
  std::string name = json().text("tokenizer_class", "");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

bool has_tokenizer(const std::string& folder) {
  return is_folder(folder) && find_file(folder).has_value();
}

void read_tokenizer(const std::string& path, Impl& impl) {
  const std::string file = is_folder(path) ? file_in(path) : path;
  const Format format = format_of(file);
  if (format == Format::gguf) return read_gguf_tokenizer(file, impl);  // says all itself
  if (format == Format::tekken) return read_tekken(file, impl);
  const ConfigBeside config(file);
  if (format == Format::json) read_tokenizer_json(file, impl);
  if (format == Format::vocabulary_json) read_vocabulary_and_merges(file, config, impl);
  if (format == Format::vocabulary_text) read_bert_vocabulary(file, config, impl);
  if (format == Format::ranks) read_ranks(file, config, impl);
  if (format == Format::sentencepiece) read_sentencepiece_file(file, impl);
  if (format != Format::json) add_tokens(config.json(), impl);
  set_roles(parent_folder(file), config, impl);
  if (format != Format::sentencepiece) return;
  const auto end = [&](const char* key, TokenRole which) {
    return config.json().flag(key, true) ? role_of(impl, which) : std::nullopt;
  };
  set_ends(impl, end("add_bos_token", TokenRole::bos), end("add_eos_token", TokenRole::eos));
}

}  // namespace plumb
