// Byte-level BPE whose file has the tokens' bytes by rank: of all neighbours that make a token, those of the
// lowest rank are joined first. The lines "BASE64 RANK" of tiktoken, and Mistral's tekken.json.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "plumb/error.h"
#include "text/byte_level.h"
#include "text/charsmap.h"
#include "text/gguf_patterns.h"
#include "text/parts.h"
#include "text/tokenizer_files.h"

namespace plumb {
namespace {

using Impl = Tokenizer::Impl;

constexpr size_t kLongestToken = 1024;  // in bytes: of each, every way to cut it in two is looked at

// An encoding that is known by the name of its file.
struct Encoding {
  const char* name;
  std::string pattern;
  std::vector<std::pair<int32_t, const char*>> special;
};

const std::vector<Encoding>& encodings() {
  const auto published = [](const char* name) { return gguf_patterns(name, name).patterns.front(); };
  static const std::vector<Encoding> all = {
      {"r50k_base", published("gpt-2"), {{50256, "<|endoftext|>"}}},
      {"p50k_base", published("gpt-2"), {{50256, "<|endoftext|>"}}},
      {"cl100k_base",
       "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+"
       "|\\s++\\z|\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
       {{100257, "<|endoftext|>"},
        {100258, "<|fim_prefix|>"},
        {100259, "<|fim_middle|>"},
        {100260, "<|fim_suffix|>"},
        {100276, "<|endofprompt|>"}}},
      {"o200k_base", published("gpt-4o"), {{199999, "<|endoftext|>"}, {200018, "<|endofprompt|>"}}},
      {"qwen",
       published("qwen2"),
       {{151643, "<|endoftext|>"}, {151644, "<|im_start|>"}, {151645, "<|im_end|>"}}},
  };
  return all;
}

// The tokens' bytes by id.
struct Ranks {
  Vocabulary bytes;
  std::string name;  // of the file

  void add(const std::string& where, uint64_t id, std::string token, uint64_t most) {
    const auto fail = [&](const std::string& what) { throw Error(ErrorKind::file, where + ": " + what); };
    if (id > most) fail(fmt::format("rank {} in a file of {} tokens", id, most / 2));
    if (token.empty()) fail("an empty token");
    if (token.size() > kLongestToken) fail(fmt::format("a token of {} bytes", token.size()));
    if (bytes.has(static_cast<int32_t>(id))) fail(fmt::format("rank {} for a second time", id));
    if (const int32_t known = bytes.find(token); known >= 0)
      fail(fmt::format("the token of rank {} too", known));
    bytes.add(static_cast<int32_t>(id), std::move(token));
  }
};

// first_id: of rank 0.
void set_ranks(const Ranks& ranks, int32_t first_id,
               const std::vector<std::pair<int32_t, std::string>>& special, Impl& impl) {
  for (int byte = 0; byte < 256; ++byte) {
    if (ranks.bytes.find(std::string(1, static_cast<char>(byte))) < 0)
      throw Error(ErrorKind::file, fmt::format("{}: the byte 0x{:02x} has no rank", ranks.name, byte));
  }
  Vocabulary vocabulary;
  std::vector<BpeMerge> merges;
  merges.reserve(ranks.bytes.size() * 2);
  for (const auto& [id, content] : special) {
    if (content.empty())
      throw Error(ErrorKind::file, fmt::format("{}: the special token {} is empty", ranks.name, id));
    if (const int32_t other = vocabulary.find(content); other >= 0) {
      throw Error(ErrorKind::file, fmt::format("{}: the special tokens {} and {} are both {}", ranks.name,
                                               other, id, quote_json(content)));
    }
    if (vocabulary.has(id) || (id >= first_id && ranks.bytes.has(id - first_id)))
      throw Error(ErrorKind::file,
                  fmt::format("{}: {} has the id {} of another token", ranks.name, quote_json(content), id));
    vocabulary.add(id, content);
  }
  for (size_t rank = 0; rank < ranks.bytes.size(); ++rank) {
    const std::string_view token = ranks.bytes.token(static_cast<int32_t>(rank));
    if (token.empty()) continue;
    const int32_t joined = first_id + static_cast<int32_t>(rank);
    std::string spelling = spell_bytes(token);
    if (const int32_t other = vocabulary.find(spelling); other >= 0) {
      throw Error(ErrorKind::file,
                  fmt::format("{}: the token of rank {} and the special token {} are both {}", ranks.name,
                              rank, other, quote_json(spelling)));
    }
    vocabulary.add(joined, std::move(spelling));
    for (size_t i = 1; i < token.size(); ++i) {
      const int32_t left = ranks.bytes.find(token.substr(0, i)), right = ranks.bytes.find(token.substr(i));
      if (left >= 0 && right >= 0) merges.push_back({first_id + left, first_id + right, joined});
    }
  }
  set_bpe(impl, std::move(vocabulary), std::move(merges), {.ignore_merges = true});
  for (const auto& [id, content] : special) impl.added.add({.id = id, .content = content, .special = true});
}

Ranks read_lines(const std::string& path) {
  const MappedFile file(path);
  const std::string_view text = file.bytes();
  const auto lines = static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n'));
  Ranks ranks;
  ranks.name = path;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    const std::string where = fmt::format("{}: line {}", path, ++number);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t space = line.find(' ');
    uint64_t rank = 0;
    const char* last = line.data() + line.size();
    const auto read = space == std::string_view::npos
                          ? std::from_chars_result{line.data(), std::errc::invalid_argument}
                          : std::from_chars(line.data() + space + 1, last, rank);
    if (read.ec != std::errc() || read.ptr != last)
      throw Error(ErrorKind::file, where + ": expected a token in base64, a blank and its rank");
    ranks.add(where, rank, decode_base64(line.substr(0, space), where), 2 * lines + 1024);
  }
  return ranks;
}

}  // namespace

void read_ranks(const std::string& path, const ConfigBeside& config, Impl& impl) {
  const std::string file = path.substr(path.rfind('/') + 1), stem = file.substr(0, file.find(".tiktoken"));
  const std::string known = config.tokenizer_class() == "QWenTokenizer" ? "qwen" : stem;
  const auto& all = encodings();
  const auto encoding =
      std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == known; });
  std::string pattern = config.json().text("pat_str", "");
  if (pattern.empty() && encoding != all.end()) pattern = encoding->pattern;
  if (pattern.empty()) {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("{}: ranks alone do not say how a text is cut; \"pat_str\" in tokenizer_config.json "
                    "beside the file says it, or a name that is known: r50k_base, p50k_base, "
                    "cl100k_base, o200k_base, qwen",
                    path));
  }
  const Ranks ranks = read_lines(path);
  std::vector<std::pair<int32_t, std::string>> special;
  if (encoding != all.end()) {
    for (const auto& [id, content] : encoding->special) special.emplace_back(id, content);
  }
  if (known == "qwen") {
    set_part(impl, "normalizer", {{"type", "NFC"}});
    for (int i = 0; i < 205; ++i) special.emplace_back(151646 + i, fmt::format("<|extra_{}|>", i));
  }
  set_byte_level(impl, {.patterns = {pattern}});
  set_ranks(ranks, 0, special, impl);
}

void read_tekken(const std::string& path, Impl& impl) {
  const Json root = parse_json_file(path);
  const JsonAt json(root, path);
  const JsonAt config = json.object("config"), vocab = json.list("vocab");
  const uint64_t specials = config.whole("default_num_special_tokens", 1u << 20);
  const uint64_t size = config.whole("default_vocab_size", vocab.size() + specials);
  if (size < specials) config.wrong("default_vocab_size", "no fewer than the special tokens");
  set_byte_level(impl, {.patterns = {config.text("pattern")}});
  Ranks ranks;
  ranks.name = path;
  for (size_t i = 0; i < size - specials; ++i) {
    const JsonAt entry = vocab.item(i);
    const std::string where = fmt::format("{}: vocab[{}]", path, i);
    if (entry.whole("rank", vocab.size()) != i) entry.wrong("rank", "the place in the list");
    ranks.add(where, i, decode_base64(entry.text("token_bytes"), where), vocab.size());
  }
  std::vector<std::pair<int32_t, std::string>> special;
  const std::vector<std::string> old = {"<unk>",
                                        "<s>",
                                        "</s>",
                                        "[INST]",
                                        "[/INST]",
                                        "[AVAILABLE_TOOLS]",
                                        "[/AVAILABLE_TOOLS]",
                                        "[TOOL_RESULTS]",
                                        "[/TOOL_RESULTS]",
                                        "[TOOL_CALLS]",
                                        "[IMG]",
                                        "<pad>",
                                        "[IMG_BREAK]",
                                        "[IMG_END]",
                                        "[PREFIX]",
                                        "[MIDDLE]",
                                        "[SUFFIX]",
                                        "[SYSTEM_PROMPT]",
                                        "[/SYSTEM_PROMPT]",
                                        "[TOOL_CONTENT]"};
  const size_t named = json.has("special_tokens") ? json.list("special_tokens").size() : old.size();
  for (size_t i = 0; i < specials; ++i) {
    std::string content = fmt::format("<SPECIAL_{}>", i);
    if (i < named)
      content = json.has("special_tokens") ? json.list("special_tokens").item(i).text("token_str") : old[i];
    special.emplace_back(static_cast<int32_t>(i), content);
  }
  set_ranks(ranks, static_cast<int32_t>(specials), special, impl);
  for (const auto& [which, name] : {std::pair{TokenRole::bos, "<s>"},
                                    {TokenRole::eos, "</s>"},
                                    {TokenRole::unk, "<unk>"},
                                    {TokenRole::pad, "<pad>"}}) {
    const int32_t id = impl.model->vocabulary().find(name);
    if (id >= 0) role_of(impl, which) = id;
  }
  set_ends(impl, role_of(impl, TokenRole::bos), role_of(impl, TokenRole::eos));
}

}  // namespace plumb
