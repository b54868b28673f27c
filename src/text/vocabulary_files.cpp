// The files from before tokenizer.json: vocab.json with merges.txt, and BERT's vocab.txt. How a text is cut
// was code, one class for each kind of model, named in tokenizer_config.json.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/utf8.h"
#include "plumb/error.h"
#include "text/byte_level.h"
#include "text/gguf_patterns.h"
#include "text/parts.h"
#include "text/tokenizer_files.h"

namespace plumb {
namespace {

using Impl = Tokenizer::Impl;

// Calls take(line, number) for each, without its end; "\r\n" ends one too.
template <typename Take>
void each_line(const std::string& path, const Take& take) {
  const MappedFile file(path);
  const std::string_view text = file.bytes();
  if (const size_t fault = utf8_fault(text); fault != kUtf8Valid) {
    throw Error(ErrorKind::file, fmt::format("{}: not UTF-8: byte 0x{:02x} at offset {}", path,
                                             static_cast<unsigned char>(text[fault]), fault));
  }
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    take(line, ++number);
    begin = end + 1;
  }
}

std::vector<BpeMerge> read_merges(const std::string& path, const Vocabulary& vocabulary) {
  std::vector<BpeMerge> merges;
  each_line(path, [&](std::string_view line, size_t number) {
    if (line.empty() || (number == 1 && line.starts_with("#version"))) return;
    merges.push_back(read_merge(line, vocabulary, fmt::format("{}: line {}", path, number)));
  });
  return merges;
}

void add_special(Impl& impl, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const int32_t id = impl.model->vocabulary().find(name);
    if (id >= 0)
      impl.added.add(
          {.id = id, .content = name, .special = true, .lstrip = std::string_view(name) == "<mask>"});
  }
}

bool has_all_bytes(const Vocabulary& vocabulary) {
  for (int byte = 0; byte < 256; ++byte) {
    if (vocabulary.find(spell_bytes(std::string(1, static_cast<char>(byte)))) < 0) return false;
  }
  return true;
}

// What the classes have in common but for CLIP's.
void check_byte_level(const std::string& path, const Vocabulary& vocabulary, const std::string& name) {
  if (has_all_bytes(vocabulary)) return;
  throw Error(
      ErrorKind::unsupported,
      fmt::format("{}: the vocabulary lacks some of the 256 bytes that {} needs; tokenizer_config.json "
                  "beside it names the \"tokenizer_class\"",
                  path, name.empty() ? "a byte-level one" : name));
}

void set_roberta_ends(Impl& impl, const std::string& path, bool prefix) {
  const int32_t cls = impl.model->vocabulary().find("<s>"), sep = impl.model->vocabulary().find("</s>");
  if (cls < 0 || sep < 0) throw Error(ErrorKind::file, path + ": the vocabulary lacks <s> or </s>");
  set_part(impl, "post_processor",
           {{"type", "RobertaProcessing"},
            {"sep", {"</s>", sep}},
            {"cls", {"<s>", cls}},
            {"trim_offsets", true},
            {"add_prefix_space", prefix}});
}

constexpr const char* kClipPattern = "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+";

void read_clip(const std::string& path, Vocabulary vocabulary, std::vector<BpeMerge> merges, Impl& impl) {
  const int32_t bos = vocabulary.find("<|startoftext|>"), eos = vocabulary.find("<|endoftext|>");
  if (bos < 0 || eos < 0)
    throw Error(ErrorKind::file, path + ": the vocabulary lacks <|startoftext|> or <|endoftext|>");
  OrderedJson steps = OrderedJson::array();
  steps.push_back({{"type", "NFC"}});
  steps.push_back({{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", " "}});
  steps.push_back({{"type", "Lowercase"}});
  set_part(impl, "normalizer", {{"type", "Sequence"}, {"normalizers", steps}});
  OrderedJson cuts = OrderedJson::array();
  cuts.push_back(
      {{"type", "Split"}, {"pattern", {{"Regex", kClipPattern}}}, {"behavior", "Removed"}, {"invert", true}});
  const OrderedJson bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  cuts.push_back(bytes);
  set_part(impl, "pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", cuts}});
  set_part(impl, "decoder", bytes);
  set_part(impl, "post_processor",
           {{"type", "RobertaProcessing"},
            {"sep", {"<|endoftext|>", eos}},
            {"cls", {"<|startoftext|>", bos}},
            {"trim_offsets", false},
            {"add_prefix_space", false}});
  set_bpe(impl, std::move(vocabulary), std::move(merges),
          {.unknown = "<|endoftext|>", .prefix = "", .suffix = "</w>"});
  for (const int32_t id : {bos, eos}) {
    impl.added.add(
        {.id = id, .content = impl.model->vocabulary().token(id), .special = true, .normalized = true});
  }
}

}  // namespace

void read_vocabulary_and_merges(const std::string& path, const ConfigBeside& config, Impl& impl) {
  const Json root = {{"vocab", parse_json_file(path)}};
  Vocabulary vocabulary = read_vocabulary(JsonAt(root, path));
  std::string merges_path = join_path(parent_folder(path), "merges.txt");
  if (!path_exists(merges_path)) throw Error(ErrorKind::file, path + ": there is no merges.txt beside it");
  std::vector<BpeMerge> merges = read_merges(merges_path, vocabulary);
  const std::string name = config.tokenizer_class();
  if (name == "CLIPTokenizer") return read_clip(path, std::move(vocabulary), std::move(merges), impl);
  const bool roberta = name == "RobertaTokenizer" || name == "BartTokenizer" ||
                       name == "LongformerTokenizer" || name == "LEDTokenizer";
  const bool qwen = name == "Qwen2Tokenizer";
  if (!name.empty() && !roberta && !qwen && name != "GPT2Tokenizer" && name != "PreTrainedTokenizer") {
    throw Error(ErrorKind::unsupported,
                fmt::format("{}: this build does not know how a {} cuts a text", path, name));
  }
  check_byte_level(path, vocabulary, name);
  const bool prefix = config.json().flag("add_prefix_space", false);
  if (qwen) set_part(impl, "normalizer", {{"type", "NFC"}});
  set_byte_level(impl, {.patterns = qwen ? gguf_patterns("qwen2", path).patterns : std::vector<std::string>{},
                        .add_prefix_space = prefix});
  set_bpe(impl, std::move(vocabulary), std::move(merges), {});
  const int32_t end_of_text = impl.model->vocabulary().find("<|endoftext|>");
  if (end_of_text >= 0) add_special(impl, {"<|endoftext|>"});
  if (!roberta) {
    // These classes add it behind a vocabulary that lacks it.
    if (end_of_text < 0 && !config.json().has("added_tokens_decoder")) {
      const auto next = static_cast<int32_t>(impl.model->vocabulary().size());
      impl.added.add({.id = next, .content = "<|endoftext|>", .special = true});
    }
    return;
  }
  add_special(impl, {"<s>", "<pad>", "</s>", "<unk>", "<mask>"});
  set_roberta_ends(impl, path, prefix);
}

void read_bert_vocabulary(const std::string& path, const ConfigBeside& config, Impl& impl) {
  Vocabulary vocabulary;
  each_line(path, [&](std::string_view line, size_t number) {
    const std::string where = fmt::format("{}: line {}", path, number);
    if (line.empty()) throw Error(ErrorKind::file, where + " is empty, expected a token");
    if (const int32_t known = vocabulary.find(line); known >= 0)
      throw Error(ErrorKind::file, fmt::format("{}: {} is line {} too", where, quote_json(line), known + 1));
    vocabulary.add(static_cast<int32_t>(number - 1), std::string(line));
  });
  const JsonAt json = config.json();
  const bool lower = json.flag("do_lower_case", true);
  set_part(impl, "normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", json.flag("tokenize_chinese_chars", true)},
            {"strip_accents", json.flag("strip_accents", lower)},
            {"lowercase", lower}});
  set_part(impl, "pre_tokenizer", {{"type", "BertPreTokenizer"}});
  const auto token = [&](const char* key, const char* fallback) {
    if (!json.has(key)) return std::string(fallback);
    const JsonAt value = json.at(key);
    return value.value().is_object() ? value.text("content") : json.text(key);
  };
  const std::string unknown = token("unk_token", "[UNK]");
  const auto id_of = [&](const std::string& name) {
    const int32_t id = vocabulary.find(name);
    if (id < 0) throw Error(ErrorKind::file, fmt::format("{}: no line is {}", path, quote_json(name)));
    return id;
  };
  id_of(unknown);
  const int32_t cls = id_of(token("cls_token", "[CLS]")), sep = id_of(token("sep_token", "[SEP]"));
  impl.model = make_wordpiece(std::move(vocabulary), {.unknown = unknown});
  add_special(impl, {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"});
  set_bert_ends(impl, cls, sep);
}

}  // namespace plumb
