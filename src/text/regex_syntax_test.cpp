#include "text/regex_syntax.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/test_support.h"
#include "text/regex.h"

namespace plumb {
namespace {

std::vector<std::string> matches(const std::string& pattern, const std::string& text) {
  const Regex regex = Regex::ruby(pattern);
  std::vector<std::string> found;
  Regex::Matches all(regex, text);
  for (size_t begin = 0, end = 0; all.next(begin, end);) found.push_back(text.substr(begin, end - begin));
  return found;
}

using Found = std::vector<std::string>;

TEST(RegexSyntax, QuantifiersAreRubys) {
  EXPECT_EQ(matches(R"(\p{N}{1,3}+)", "12345"), Found{"12345"});  // {} has no possessive form: repeated again
  EXPECT_EQ(matches(R"(\p{N}{1,3})", "12345"), (Found{"123", "45"}));
  EXPECT_EQ(matches("a{,2}b", "aaab"), Found{"aab"});
  EXPECT_EQ(matches("xa{2}?", "xxaa"), (Found{"x", "xaa"}));  // {n}? is (?:{n})?
  EXPECT_EQ(matches("a{1,2}?", "aa"), (Found{"a", "a"}));
  EXPECT_EQ(matches("a++b", "aab"), Found{"aab"});
  EXPECT_EQ(matches("a{x}", "a{x}"), Found{"a{x}"});
}

TEST(RegexSyntax, ClassesHoldClasses) {
  EXPECT_EQ(matches("[a[bc]]+", "abcd"), Found{"abc"});
  EXPECT_EQ(matches(R"( ?[^(\s|[.,!?])]+)", " ab.cd (e"), (Found{" ab", "cd", "e"}));
  EXPECT_EQ(matches("[a-z&&[^aeiou]]+", "abcde"), (Found{"bcd"}));
  EXPECT_EQ(matches("[^a-z&&[^aeiou]]", "abA"), (Found{"a", "A"}));
  EXPECT_EQ(matches(R"([^\S\n]+)", "a \t\nb"), Found{" \t"});
  EXPECT_EQ(matches("[[:alpha:]]+", "añ1"), Found{"añ"});
  EXPECT_EQ(matches("[[:^alpha:]]+", "añ1 "), Found{"1 "});
}

TEST(RegexSyntax, ShorthandsAreUnicode) {
  EXPECT_EQ(matches(R"(\s)", "\u0085 \u180e\u3000\u200b"), (Found{"\u0085", " ", "\u3000"}));
  EXPECT_EQ(matches(R"(\w+)", "né_2‿x\u0301-ⓐ"), (Found{"né_2‿x\u0301", "ⓐ"}));
  EXPECT_EQ(matches(R"(\h+)", "xfF0 "), Found{"fF0"});
  EXPECT_EQ(matches(R"(\bé)", "é aé"), Found{"é"});
  EXPECT_EQ(matches(R"(\p{Han}+)", "漢字かな"), Found{"漢字"});
  EXPECT_EQ(matches(R"(\p{Letter}+\p{^L})", "añ1"), Found{"añ1"});
  EXPECT_EQ(matches(R"(\p{Uppercase_Letter})", "aÑ"), Found{"Ñ"});
}

TEST(RegexSyntax, LinesOptionsGroups) {
  EXPECT_EQ(matches("a$", "a\na"), (Found{"a", "a"}));
  EXPECT_EQ(matches("^a", "a\na"), (Found{"a", "a"}));
  EXPECT_EQ(matches("a.b", "a\nb"), Found{});
  EXPECT_EQ(matches("(?m)a.b", "a\nb"), Found{"a\nb"});
  EXPECT_EQ(matches("(?m:a.)b", "a\nb"), Found{"a\nb"});
  EXPECT_EQ(matches("(?i)a|b", "AB"), (Found{"A", "B"}));
  EXPECT_EQ(matches("(?i:'s|'ll)", "'S'Ll"), (Found{"'S", "'Ll"}));
  EXPECT_EQ(matches("(?x) a b # both\n", "ab"), Found{"ab"});
  EXPECT_EQ(matches("(?<q>['\"])x\\k<q>", "'x'\"x'"), Found{"'x'"});
  EXPECT_EQ(matches(R"((a)(b)\2\1)", "abba"), Found{"abba"});
}

TEST(RegexSyntax, EmptyMatches) {
  EXPECT_EQ(matches("b*", "abba"), (Found{"", "bb", ""}));
  EXPECT_EQ(matches("", "é"), (Found{"", ""}));
}

TEST(RegexSyntax, Refusals) {
  const auto refused = [](const std::string& pattern) {
    return error_of(ErrorKind::unsupported, [&] { Regex::ruby(pattern); });
  };
  EXPECT_EQ(refused("a)"),
            "the pattern 'a)' cannot be followed: a closing parenthesis without its opening at offset 1");
  for (const char* pattern :
       {"(a", "[a", "[a[b]", "*a", "(?~a)", "\\p{Nothing}", "\\y", "[z-a]", "(?<=a*)b", "\\xZ"})
    EXPECT_NE(refused(pattern).find("cannot be followed"), std::string::npos) << pattern;
  EXPECT_NE(refused(std::string(5000, '(')).find("nested too deep"), std::string::npos);
  EXPECT_NE(refused(std::string(5000, '[')).find("nested too deep"), std::string::npos);
}

TEST(RegexSyntax, BacktrackingEnds) {
  EXPECT_NE(error_of(ErrorKind::input, [] { matches("(x+x+)+[yz]", std::string(64, 'x')); }).find("gave up"),
            std::string::npos);
}

}  // namespace
}  // namespace plumb
