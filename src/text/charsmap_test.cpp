#include "text/charsmap.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/test_support.h"

namespace plumb {
namespace {

// A table of one rule, "a" to "xy": the root, then a's unit where the root's step and 'a' lead, then its
// value.
std::string one_rule(const std::string& replacement) {
  std::vector<uint32_t> units(256, 0);
  units['a'] = 'a' | 1u << 8 | (1u << 10);  // has a leaf, one step on
  units['a' ^ 1] = 0;                       // its value: the first replacement
  std::string blob(4 + units.size() * 4, '\0');
  const uint32_t bytes = static_cast<uint32_t>(units.size() * 4);
  std::memcpy(blob.data(), &bytes, 4);
  std::memcpy(blob.data() + 4, units.data(), bytes);
  return blob + replacement + '\0';
}

TEST(Charsmap, FindsAndReplaces) {
  const Charsmap map(one_rule("xy"), "test");
  std::string_view replacement;
  EXPECT_EQ(map.find("ab", replacement), 1u);
  EXPECT_EQ(replacement, "xy");
  EXPECT_EQ(map.find("b", replacement), 0u);
  EXPECT_EQ(map.find("", replacement), 0u);
  EXPECT_EQ(map.find(std::string_view("\0a", 2), replacement), 0u);
}

TEST(Charsmap, RefusesWhatIsNoTable) {
  const std::string whole = one_rule("x");
  for (const size_t cut : {0, 3, 4, 100}) EXPECT_THROW(Charsmap(whole.substr(0, cut), "test"), Error) << cut;
  EXPECT_EQ(error_of(ErrorKind::file, [] { Charsmap(one_rule("\xff"), "test"); }),
            "test: the replacements are not UTF-8 at byte 0");
  std::string wild = whole;  // every unit leads far outside
  std::memset(wild.data() + 4, 0xFE, 1024);
  const Charsmap map(wild, "test");
  std::string_view replacement;
  for (int byte = 1; byte < 256; ++byte) {
    const std::string text = {static_cast<char>(byte), static_cast<char>(byte)};
    EXPECT_LE(map.find(text, replacement), 2u);
  }
}

TEST(Charsmap, Base64) {
  EXPECT_EQ(decode_base64("", "test"), "");
  EXPECT_EQ(decode_base64("TQ==", "test"), "M");
  EXPECT_EQ(decode_base64("TWE=", "test"), "Ma");
  EXPECT_EQ(decode_base64("TWFu+/8=", "test"), "Man\xfb\xff");
  for (const char* faulty : {"T", "TQ=", "T===", "TQ==TQ==", "T?==", "TQ=a"})
    EXPECT_THROW(decode_base64(faulty, "test"), Error) << faulty;
}

}  // namespace
}  // namespace plumb
