// Recorded cases of the `tokenizers` and `sentencepiece` packages, beside the tokenizer.json or
// tokenizer.model they belong to: ids, tokens, offsets, types, masks, windows, decoded text, and decoding one
// id at a time. Folders: those of the source tree, and those that PLUMB_TOKENIZERS names (separated by
// colons, each a case folder or a folder of them; tools/compare_tokenizer.py makes such folders), by default
// the reference data's. And vocabularies in GGUF with the ids that llama.cpp recorded: every NAME.gguf with
// NAME.inp and NAME.out in the folders that PLUMB_VOCAB names. And random Unicode text:
// tests/data/random/FOLDER/NAME.json is what that script recorded of FOLDER/NAME of the reference data (a
// GGUF after `plumb tokenizer convert`).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "plumb/error.h"
#include "plumb/tokenizer.h"
#include "support/files.h"
#include "text/charsmap.h"

namespace plumb {
namespace {

using Json = nlohmann::json;
using Path = std::filesystem::path;

// What an environment variable names, by default a folder of the reference data.
std::vector<Path> named_places(const char* variable, const char* fallback) {
  const char* named = std::getenv(variable);
  if (!named) return {test::shared_path(fallback)};
  std::vector<Path> places;
  std::istringstream names(named);
  for (std::string name; std::getline(names, name, ':');) places.emplace_back(name);
  return places;
}

bool is_sentencepiece(const Path& folder) {
  return exists(folder / "tokenizer.model");
}

std::vector<Path> case_folders() {
  std::vector<Path> places = named_places("PLUMB_TOKENIZERS", "tokenizers");
  places.insert(places.begin(), test::source_folder() / "tests/data");
  std::vector<Path> folders;
  const auto add = [&](const Path& folder) {
    if (!exists(folder / "cases.json") || !(exists(folder / "tokenizer.json") || is_sentencepiece(folder)))
      return false;
    folders.push_back(folder);
    return true;
  };
  for (const Path& place : places) {
    if (!is_directory(place) || add(place)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(place)) add(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

bool disputes(const Json& expected, const char* what) {
  const Json list = expected.value("disputed", Json::array());
  return std::find(list.begin(), list.end(), what) != list.end();
}

void check_encoding(const Encoding& encoding, const Json& expected) {
  EXPECT_EQ(encoding.ids, expected["ids"].get<std::vector<int32_t>>());
  if (expected.contains("tokens")) {
    EXPECT_EQ(Json(encoding.tokens), expected["tokens"]);
  }
  if (expected.contains("type_ids")) {
    EXPECT_EQ(Json(encoding.type_ids), expected["type_ids"]);
  }
  if (expected.contains("special_mask")) {
    EXPECT_EQ(Json(encoding.special_mask), expected["special_mask"]);
  }
  if (expected.contains("attention_mask")) {
    EXPECT_EQ(Json(encoding.attention_mask), expected["attention_mask"]);
  }
  if (expected.contains("offsets")) {
    Json offsets = Json::array();
    for (const TextSpan& span : encoding.offsets) offsets.push_back({span.begin, span.end});
    EXPECT_EQ(offsets, expected["offsets"]);
  }
  if (expected.contains("overflow")) {
    Json windows = Json::array();
    for (const Encoding& window : encoding.overflow) windows.push_back(window.ids);
    EXPECT_EQ(windows, expected["overflow"]);
  }
}

// The same offsets by byte: they cover the same characters.
void check_byte_offsets(const Encoding& points, const Encoding& bytes,
                        const std::vector<std::string>& texts) {
  ASSERT_EQ(points.ids, bytes.ids);
  ASSERT_EQ(points.offsets.size(), bytes.offsets.size());
  for (size_t i = 0; i < points.offsets.size(); ++i) {
    if (points.sequence[i] < 0) continue;
    const std::string& text = texts[static_cast<size_t>(points.sequence[i])];
    const auto count = [&](uint32_t end) {
      return std::count_if(text.begin(),
                           text.begin() + std::min<ptrdiff_t>(end, static_cast<ptrdiff_t>(text.size())),
                           [](char c) { return (c & 0xC0) != 0x80; });
    };
    const auto all = count(static_cast<uint32_t>(text.size()));
    EXPECT_EQ(count(bytes.offsets[i].begin), std::min<ptrdiff_t>(points.offsets[i].begin, all));
    EXPECT_EQ(count(bytes.offsets[i].end), std::min<ptrdiff_t>(points.offsets[i].end, all));
  }
}

void check_broken(const Tokenizer& tokenizer, const Json& broken) {
  try {
    tokenizer.encode(decode_base64(broken["bytes"].get<std::string>(), "the case"));
    FAIL() << "encoded though it is not UTF-8 at " << broken.dump();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(" at offset " + broken["at"].dump() + " "), std::string::npos)
        << error.what() << ", expected " << broken.dump();
  }
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  StreamDecoder stream = tokenizer.stream_decoder();
  std::string text;
  for (const int32_t id : ids) text += stream.add(id);
  return text + stream.finish();
}

// parse_special: where a case does not say.
void check_case(const Tokenizer& tokenizer, const Json& expected, bool parse_special) {
  std::vector<std::string> texts = {expected["text"].get<std::string>()};
  if (expected.contains("pair") && expected["pair"].is_string())
    texts.push_back(expected["pair"].get<std::string>());
  const TextInput input = {texts[0],
                           texts.size() > 1 ? std::optional<std::string_view>(texts[1]) : std::nullopt};
  EncodeOptions options = {.add_special = expected.value("add_special_tokens", true),
                           .parse_special = expected.value("parse_special", parse_special),
                           .offsets = OffsetUnit::code_points,
                           .tokens = true};
  if (expected.contains("broken") && expected["broken"].is_object())
    check_broken(tokenizer, expected["broken"]);
  if (expected.contains("error")) {
    EXPECT_THROW(tokenizer.encode_input(input, options), Error);
    return;
  }
  const Encoding encoding = tokenizer.encode_input(input, options);
  if (!disputes(expected, "normalizer")) check_encoding(encoding, expected);
  options.offsets = OffsetUnit::bytes;
  check_byte_offsets(encoding, tokenizer.encode_input(input, options), texts);
  options.offsets = OffsetUnit::none;
  options.tokens = false;
  EXPECT_EQ(tokenizer.encode_input(input, options).ids, encoding.ids);
  if (disputes(expected, "normalizer") || disputes(expected, "decode")) return;
  const auto ids = expected["ids"].get<std::vector<int32_t>>();
  EXPECT_EQ(tokenizer.decode(ids), expected["decode"].get<std::string>());
  EXPECT_EQ(streamed(tokenizer, ids), expected["decode"].get<std::string>());
  if (!expected.contains("decode_with_special")) return;
  EXPECT_EQ(tokenizer.decode(ids, true), expected["decode_with_special"].get<std::string>());
}

size_t characters(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

void check_stream(const Tokenizer& tokenizer, const Json& expected) {
  const auto prefixes = expected["prefixes"].get<std::vector<std::string>>();
  StreamDecoder stream = tokenizer.stream_decoder();
  std::string text;
  for (size_t i = 0; i < expected["ids"].size(); ++i) {
    text += stream.add(expected["ids"][i].get<int32_t>());
    EXPECT_NE(std::find(prefixes.begin(), prefixes.end(), text), prefixes.end()) << text;
    EXPECT_LE(characters(text), expected["at_most"][i].get<size_t>()) << text;
  }
  EXPECT_EQ(text + stream.finish(), expected["text"].get<std::string>());
}

Json read(const Path& path) {
  return Json::parse(test::read_file(path));
}

// Up to five that fail.
void check_cases(const Tokenizer& tokenizer, const Json& cases, bool parse_special) {
  ASSERT_FALSE(cases.empty());
  size_t failed = 0;
  for (const Json& expected : cases) {
    const auto before = testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
    SCOPED_TRACE(expected["text"].dump());
    check_case(tokenizer, expected, parse_special);
    failed += testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count() > before;
    if (failed == 5) break;
  }
}

class TokenizerCases : public testing::TestWithParam<Path> {};

TEST_P(TokenizerCases, Encoding) {
  check_cases(Tokenizer::load(GetParam().string()), read(GetParam() / "cases.json"),
              !is_sentencepiece(GetParam()));  // as the packages do
}

// The files from before tokenizer.json, where a folder has both.
TEST_P(TokenizerCases, OlderFiles) {
  if (!exists(GetParam() / "vocab.json")) return;
  const Tokenizer tokenizer = Tokenizer::load((GetParam() / "vocab.json").string());
  for (const Json& expected : read(GetParam() / "cases.json")) {
    if (expected.contains("pair") && !expected["pair"].is_null()) continue;
    EXPECT_EQ(tokenizer.encode(expected["text"].get<std::string>(), true),
              expected["ids"].get<std::vector<int32_t>>());
  }
}

TEST_P(TokenizerCases, WrittenFileReadsTheSame) {
  const Tokenizer tokenizer = Tokenizer::load(GetParam().string());
  const Path file = Path(testing::TempDir()) / (GetParam().filename().string() + ".json");
  tokenizer.save(file.string());
  const Tokenizer again = Tokenizer::load(file.string());
  std::filesystem::remove(file);
  // A text that is refused without its special tokens may be fine with them.
  const auto ids = [](const Tokenizer& one, const std::string& text, bool special) {
    try {
      return one.encode(text, special);
    } catch (const Error&) {
      return std::vector<int32_t>{-1};
    }
  };
  for (const Json& expected : read(GetParam() / "cases.json")) {
    const std::string text = expected["text"].get<std::string>();
    for (const bool special : {false, true})
      EXPECT_EQ(ids(tokenizer, text, special), ids(again, text, special));
  }
}

TEST_P(TokenizerCases, Stream) {
  if (!exists(GetParam() / "stream.json")) return;
  const Tokenizer tokenizer = Tokenizer::load(GetParam().string());
  for (const Json& expected : read(GetParam() / "stream.json")) {
    SCOPED_TRACE(expected["text"].dump());
    check_stream(tokenizer, expected);
  }
}

std::string name_of(const testing::TestParamInfo<Path>& info) {
  std::string name = info.param.filename().string();
  for (char& c : name) c = isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Folder, TokenizerCases, testing::ValuesIn(case_folders()), name_of);

class RandomText : public testing::TestWithParam<Path> {};

TEST_P(RandomText, Encoding) {
  const Path of = Path(GetParam().parent_path().filename()) / GetParam().stem();
  const Path file = test::shared_path(of.string());
  SKIP_WITHOUT(file);
  check_cases(Tokenizer::load(file.string()), read(GetParam()), false);
}

std::vector<Path> random_texts() {
  std::vector<Path> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(test::source_folder() / "tests/data/random"))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

INSTANTIATE_TEST_SUITE_P(File, RandomText, testing::ValuesIn(random_texts()), name_of);

// Beside NAME.gguf: NAME.inp or NAME.gguf.inp.
Path beside(const Path& gguf, const char* ending) {
  const Path whole = gguf.string() + ending;
  return exists(whole) ? whole : Path(gguf).replace_extension(ending);
}

std::vector<Path> vocabularies() {
  std::vector<Path> files;
  for (const Path& place : named_places("PLUMB_VOCAB", "vocab")) {
    if (!is_directory(place)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(place)) {
      const Path& file = entry.path();
      if (file.extension() == ".gguf" && exists(beside(file, ".inp")) && exists(beside(file, ".out")))
        files.push_back(file);
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

struct Recorded {
  std::string text;
  std::vector<int32_t> ids;
};

std::vector<Recorded> read_recorded(const Path& gguf) {
  const std::string texts = test::read_file(beside(gguf, ".inp"));
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::istringstream ids(test::read_file(beside(gguf, ".out")));
  std::vector<Recorded> result;
  for (size_t begin = 0; begin < texts.size();) {
    const size_t end = texts.find(separator, begin);
    Recorded one{.text = texts.substr(begin, end - begin)};
    std::string line;
    EXPECT_TRUE(std::getline(ids, line)) << "fewer lines of ids than texts";
    std::istringstream numbers(line);
    for (int32_t id = 0; numbers >> id;) one.ids.push_back(id);
    result.push_back(std::move(one));
    if (end == std::string::npos) break;
    begin = end + separator.size();
  }
  return result;
}

class GgufVocabulary : public testing::TestWithParam<Path> {};

TEST_P(GgufVocabulary, Encoding) {
  const Tokenizer tokenizer = Tokenizer::load(GetParam().string());
  const auto recorded = read_recorded(GetParam());
  ASSERT_FALSE(recorded.empty());
  for (const Recorded& one : recorded) EXPECT_EQ(tokenizer.encode(one.text), one.ids) << one.text;
}

TEST_P(GgufVocabulary, WrittenFileReadsTheSame) {
  const Tokenizer tokenizer = Tokenizer::load(GetParam().string());
  const Path file = Path(testing::TempDir()) / (GetParam().filename().string() + ".json");
  tokenizer.save(file.string());
  const Tokenizer again = Tokenizer::load(file.string());
  std::filesystem::remove(file);
  for (const Recorded& one : read_recorded(GetParam())) {
    EXPECT_EQ(again.encode(one.text), one.ids) << one.text;
    EXPECT_EQ(again.decode(one.ids), tokenizer.decode(one.ids));
  }
}

INSTANTIATE_TEST_SUITE_P(File, GgufVocabulary, testing::ValuesIn(vocabularies()), name_of);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GgufVocabulary);

}  // namespace
}  // namespace plumb
