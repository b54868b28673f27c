// Ids and decoded text as the `tokenizers` package gives them: recorded cases, beside the tokenizer.json they
// belong to. Folders: those in the reference data that this build reads in full, and those that
// PLUMB_TOKENIZERS names (separated by colons; tools/compare_tokenizer.py makes such folders).
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "plumb/tokenizer.h"
#include "support/files.h"

namespace plumb {
namespace {

using Json = nlohmann::json;

void check_case(const Tokenizer& tokenizer, const Json& expected) {
  // The package looks for special tokens in any text unless it is told otherwise.
  const bool parse_special = expected.value("parse_special", true);
  std::vector<int32_t> ids = tokenizer.encode(expected["text"].get<std::string>(), parse_special);
  if (expected.contains("pair") && expected["pair"].is_string()) {
    const auto second = tokenizer.encode(expected["pair"].get<std::string>(), parse_special);
    ids.insert(ids.end(), second.begin(), second.end());
  }
  const auto wanted = expected["ids"].get<std::vector<int32_t>>();
  EXPECT_EQ(ids, wanted) << expected["text"];
  if (expected.contains("disputed")) return;
  EXPECT_EQ(tokenizer.decode(wanted), expected["decode"].get<std::string>());
  EXPECT_EQ(tokenizer.decode(wanted, true), expected["decode_with_special"].get<std::string>());
}

void check_folder(const std::filesystem::path& folder) {
  const Tokenizer tokenizer = Tokenizer::load(folder.string());
  const Json cases = Json::parse(test::read_file(folder / "cases.json"));
  ASSERT_FALSE(cases.empty());
  for (const Json& expected : cases) {
    check_case(tokenizer, expected);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Tokenizer, OwnByteLevelBpe) {
  check_folder(test::source_folder() / "tests/data/byte_bpe");
}

TEST(Tokenizer, OwnBytes) {
  check_folder(test::source_folder() / "tests/data/bytes");
}

TEST(Tokenizer, Gpt2) {
  const auto folder = test::shared_path("tokenizers/gpt2");
  SKIP_WITHOUT(folder);
  check_folder(folder);
}

TEST(Tokenizer, FoldersOfTheEnvironment) {
  const char* folders = std::getenv("PLUMB_TOKENIZERS");
  std::istringstream names(folders ? folders : "");
  for (std::string name; std::getline(names, name, ':');) {
    if (!name.empty()) check_folder(name);
  }
}

}  // namespace
}  // namespace plumb
