#include "text/byte_level.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "base/test_support.h"
#include "text/pre_tokenizer.h"

namespace plumb {
namespace {

// By GPT-2's pattern.
std::vector<std::string> split(std::string_view text, bool prefix = false, bool by_pattern = true) {
  const Json json = {{"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"use_regex", by_pattern}};
  const std::string file = "test";
  Pieces pieces;
  pieces.text.text = text;
  if (!text.empty()) pieces.list = {pieces.part(0, text.size())};
  read_pre_tokenizer(JsonAt(json, file)).cut_bytes(pieces);
  std::vector<std::string> words;
  for (const Piece& piece : pieces.list) words.emplace_back(pieces.view(piece));
  return words;
}

using Words = std::vector<std::string>;

TEST(ByteLevel, SpellingsAreOneToOne) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  EXPECT_EQ(unspell_bytes(spell_bytes(bytes)), bytes);
  EXPECT_EQ(spell_bytes(" the\n"), "ĠtheĊ");
  EXPECT_EQ(spell_bytes("é\x7f\xad"), "Ã©ġŃ");
  EXPECT_EQ(unspell_bytes("Ā"), std::string(1, '\0'));
  EXPECT_EQ(unspell_bytes("a b"), std::nullopt);  // a blank stands for no byte
  EXPECT_EQ(unspell_bytes("漢"), std::nullopt);
}

TEST(ByteLevel, Gpt2Pattern) {
  EXPECT_EQ(split("Hello  world, it's 42\n\n\nok"),
            (Words{"Hello", " ", " world", ",", " it", "'s", " 42", "\n\n", "\n", "ok"}));
  EXPECT_EQ(split("IT'S  "), (Words{"IT", "'", "S", "  "}));
  EXPECT_EQ(split("naïve Ünïcode漢字٣²"), (Words{"naïve", " Ünïcode漢字", "٣²"}));
  EXPECT_EQ(split("a\u3000b\u0085\u180e"), (Words{"a", "\u3000", "b", "\u0085", "\u180e"}));
  EXPECT_EQ(split(""), Words{});
}

TEST(ByteLevel, Options) {
  EXPECT_EQ(split("a b", true), (Words{" a", " b"}));
  EXPECT_EQ(split(" a", true), (Words{" a"}));
  EXPECT_EQ(split("a b c", false, false), (Words{"a b c"}));
}

TEST(Regex, GapsAndRefusals) {
  const Regex digits("[0-9]+");
  Regex::Matches matches(digits, "ab12c3");
  size_t begin, end;
  ASSERT_TRUE(matches.next(begin, end));
  EXPECT_EQ(std::make_pair(begin, end), std::make_pair(size_t{2}, size_t{4}));
  ASSERT_TRUE(matches.next(begin, end));
  EXPECT_EQ(begin, 5u);
  EXPECT_FALSE(matches.next(begin, end));
  EXPECT_TRUE(error_of(ErrorKind::unsupported, [] {
                Regex("a(b");
              }).starts_with("the pattern 'a(b' cannot be followed: "));
}

// A pattern that backtracks without bound ends in an error, not in a hang.
TEST(Regex, EndlessBacktrackingIsAnError) {
  const Regex evil("(a|aa)+$");
  const std::string text(60, 'a');
  Regex::Matches matches(evil, text + "b");
  size_t begin, end;
  error_of(ErrorKind::input, [&] { matches.next(begin, end); });
}

}  // namespace
}  // namespace plumb
