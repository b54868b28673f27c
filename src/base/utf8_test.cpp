#include "base/utf8.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace plumb {
namespace {

using namespace std::string_literals;

TEST(Utf8, EveryCodePointRoundTrips) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    std::string text;
    append_utf8(text, c);
    const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
    ASSERT_EQ(utf8_fault(text) == kUtf8Valid, !surrogate) << static_cast<uint32_t>(c);
    size_t position = 0;
    if (surrogate) continue;
    ASSERT_EQ(next_code_point(text, position), c);
    ASSERT_EQ(position, text.size());
    ASSERT_EQ(utf8_unfinished(text), 0u);
    for (size_t cut = 1; cut < text.size(); ++cut) ASSERT_EQ(utf8_unfinished(text.substr(0, cut)), cut);
  }
}

TEST(Utf8, FaultOffsets) {
  EXPECT_EQ(utf8_fault(""), kUtf8Valid);
  EXPECT_EQ(utf8_fault("plain ascii, longer than a word"), kUtf8Valid);
  EXPECT_EQ(utf8_fault("12345678\xff"), 8u);
  EXPECT_EQ(utf8_fault("aé\x80"), 3u);
  EXPECT_EQ(utf8_fault("a\xC0\xAF"), 1u);         // overlong
  EXPECT_EQ(utf8_fault("\xE0\x80\x80"), 0u);      // overlong
  EXPECT_EQ(utf8_fault("\xED\xA0\x80"), 0u);      // surrogate
  EXPECT_EQ(utf8_fault("\xF4\x90\x80\x80"), 0u);  // above U+10FFFF
  EXPECT_EQ(utf8_fault("ab\xF0\x9F\xA6"), 2u);    // cut
}

// The example of table 3-8 in the Unicode standard, and its neighbours.
TEST(Utf8, RepairsMaximalParts) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(utf8_repaired("\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            r + r + r + "b" + r + "c" + r + r + "d");
  EXPECT_EQ(utf8_repaired("\xED\xA0\x80"), r + r + r);
  EXPECT_EQ(utf8_repaired("\xE2\x82"), r);
  EXPECT_EQ(utf8_repaired("a\0b"s), "a\0b"s);
}

TEST(Utf8, StreamGivesTheSameAsTheWhole) {
  const RandomKey key{3, 0};
  uint64_t draw = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    const uint64_t length = random_below(key, draw++, 24);
    for (uint64_t i = 0; i < length; ++i) {
      // Half real characters, half bytes that are likely to begin or break one.
      if (random_below(key, draw++, 2) == 0) {
        append_utf8(bytes, static_cast<char32_t>(random_below(key, draw++, 0xD7FF)));
      } else {
        bytes += static_cast<char>(0x80 + random_below(key, draw++, 128));
      }
    }
    Utf8Stream stream;
    std::string streamed;
    for (size_t i = 0; i < bytes.size();) {
      const size_t count = 1 + random_below(key, draw++, 3);
      const std::string part = stream.add(std::string_view(bytes).substr(i, count));
      ASSERT_EQ(utf8_fault(part), kUtf8Valid);
      streamed += part;
      i += count;
    }
    streamed += stream.finish();
    ASSERT_EQ(streamed, utf8_repaired(bytes));
  }
}

}  // namespace
}  // namespace plumb
