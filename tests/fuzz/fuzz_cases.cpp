#include "fuzz_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "base/file.h"
#include "base/json.h"
#include "base/test_support.h"
#include "base/utf8.h"
#include "model_cases.h"
#include "plumb/error.h"
#include "plumb/tokenizer.h"
#include "text/byte_level.h"
#include "text/charsmap.h"

namespace plumb::fuzz {
namespace {

struct Kind {
  std::string name, file;           // the file that the bytes become
  std::string before;               // in that file, before the bytes
  std::string beside, beside_text;  // another file that it needs; "" for none
};

std::string byte_text(int byte) {
  return std::string(1, static_cast<char>(byte));
}

std::string byte_ranks() {
  std::string lines;
  for (int byte = 0; byte < 256; ++byte)
    lines += encode_base64(byte_text(byte)) + " " + std::to_string(byte) + "\n";
  return lines;
}

std::string byte_vocabulary() {
  std::string tokens;
  int id = 0;
  const auto add = [&](const std::string& token) {
    tokens += (id == 0 ? "" : ", ") + quote_json(token) + ": " + std::to_string(id);
    ++id;
  };
  for (int byte = 0; byte < 256; ++byte) add(spell_bytes(byte_text(byte)));
  for (const char* token : {"ab", "bc", "abc", "aa", "aaaa", "\u0120a", "\u0120ab", "\u00c3\u00a9"})
    add(token);
  return "{" + tokens + "}";
}

// The ranks of a tekken.json but for what makes it whole: more of them, "]", the config.
std::string byte_entries() {
  std::string entries;
  for (int byte = 0; byte < 256; ++byte)
    entries += fmt::format(R"({}{{"rank": {}, "token_bytes": "{}"}})", byte == 0 ? "" : ",\n", byte,
                           encode_base64(byte_text(byte)));
  return R"({"vocab": [)" + entries;
}

const std::vector<Kind>& all_kinds() {
  static const std::vector<Kind> all = {
      {"gguf", "model.gguf", "", "", ""},
      {"json", "tokenizer.json", "", "", ""},
      {"merges", "merges.txt", "", "vocab.json", byte_vocabulary()},
      {"model", "tokenizer.model", "", "", ""},
      {"tekken", "tekken.json", byte_entries(), "", ""},
      {"text", "", "", "", ""},
      {"tiktoken", "a.tiktoken", byte_ranks(), "tokenizer_config.json", R"({"pat_str": "\\s?\\w+|."})"},
      {"vocabulary", "vocab.txt", "", "", ""},
  };
  return all;
}

const Kind& kind_named(const std::string& name) {
  const auto& all = all_kinds();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Kind& kind) { return kind.name == name; });
  if (found == all.end()) throw std::logic_error("no kind is named " + name);
  return *found;
}

void expect(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

// What a function gives, nothing if it throws an Error.
template <typename F>
auto unless_error(const F& f) -> std::optional<decltype(f())> {
  try {
    return f();
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool keep_special) {
  StreamDecoder stream = tokenizer.stream_decoder(keep_special);
  std::string text;
  for (const int32_t id : ids) text += stream.add(id);
  return text + stream.finish();
}

// Of a text that it may refuse; the ids if it does not.
std::optional<std::vector<int32_t>> check_text(const Tokenizer& tokenizer, const std::string& text) {
  const auto ids = unless_error([&] { return tokenizer.encode(text); });
  const auto parsed = unless_error([&] { return tokenizer.encode(text, true); });
  if (ids || parsed) expect(utf8_fault(text) == kUtf8Valid, "a text that is not UTF-8 was encoded");
  for (const auto& some : {ids, parsed}) {
    if (!some) continue;
    for (const bool keep_special : {false, true}) {
      const auto decoded = unless_error([&] { return tokenizer.decode(*some, keep_special); });
      const auto stream = unless_error([&] { return streamed(tokenizer, *some, keep_special); });
      expect(stream == decoded, "a stream decodes to another text");
      if (decoded) expect(utf8_fault(*decoded) == kUtf8Valid, "decoded text is not UTF-8");
    }
  }
  EncodeOptions options;
  options.offsets = OffsetUnit::bytes;
  options.tokens = true;
  const auto encoding = unless_error([&] { return tokenizer.encode_input({text}, options); });
  if (encoding) {
    expect(encoding->offsets.size() == encoding->size(), "not an offset for each token");
    for (const TextSpan& span : encoding->offsets)
      expect(span.begin <= span.end && span.end <= text.size(), "an offset is outside the text");
  }
  return ids;
}

const std::string kFixedText =
    " ab abc a\u0301 \u00e9\u00c9 \u2581x\u3000\u4e2d\u6587  12\n\n\U0001f999<s></s> [UNK]";

void check_file(const Kind& kind, std::string_view bytes) {
  const TempFolder folder;
  const std::string path = folder / kind.file;
  write_file_atomically(path, kind.before + std::string(bytes));
  if (!kind.beside.empty()) write_file_atomically(folder / kind.beside, kind.beside_text);
  const auto tokenizer = unless_error([&] { return Tokenizer::load(folder.str()); });
  if (!tokenizer) return;
  const std::string saved = folder / "saved.json";
  tokenizer->save(saved);
  const Tokenizer again = Tokenizer::load(saved);
  expect(again.vocab_size() == tokenizer->vocab_size(), "a saved tokenizer has another number of tokens");
  for (const std::string& text : {kFixedText, std::string(bytes.substr(0, 2000))}) {
    const auto ids = check_text(*tokenizer, text);
    expect(ids == unless_error([&] { return again.encode(text); }), "a saved tokenizer gives other ids");
    if (!ids) continue;
    const auto decoded = [&](const Tokenizer& one) { return unless_error([&] { return one.decode(*ids); }); };
    expect(decoded(*tokenizer) == decoded(again), "a saved tokenizer gives another text");
  }
}

// Every model type: two made here, and the files of the corpus that are named valid.
const std::vector<Tokenizer>& valid_tokenizers() {
  static const std::vector<Tokenizer> all = [] {
    std::vector<Tokenizer> made = {Tokenizer::bytes(), Tokenizer::characters("abcxyz019<>|")};
    for (const Kind& kind : all_kinds()) {
      if (kind.file.empty()) continue;
      const std::string from = join_path(PLUMB_FUZZ_CORPUS, kind.name);
      for (const std::string& name : list_folder(from)) {
        if (!name.starts_with("valid")) continue;
        const TempFolder folder;
        write_file_atomically(folder / kind.file, kind.before + read_file(join_path(from, name)));
        if (!kind.beside.empty()) write_file_atomically(folder / kind.beside, kind.beside_text);
        made.push_back(Tokenizer::load(folder.str()));
      }
    }
    return made;
  }();
  return all;
}

}  // namespace

const std::vector<std::string>& kinds() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> made;
    for (const Kind& kind : all_kinds()) made.push_back(kind.name);
    made.insert(made.end(), model_kinds().begin(), model_kinds().end());
    return made;
  }();
  return names;
}

void run_case(const std::string& kind, std::string_view bytes) {
  if (std::find(model_kinds().begin(), model_kinds().end(), kind) != model_kinds().end())
    return run_model_case(kind, bytes);
  const Kind& what = kind_named(kind);
  if (!what.file.empty()) return check_file(what, bytes);
  const std::string text(bytes);
  for (const Tokenizer& tokenizer : valid_tokenizers()) check_text(tokenizer, text);
  if (const auto ids = unless_error([&] { return Tokenizer::bytes().encode(text); }))
    expect(Tokenizer::bytes().decode(*ids) == text, "a tokenizer of bytes loses some");
}

}  // namespace plumb::fuzz
