#include "infer/text_stream.h"

#include <gtest/gtest.h>

#include "base/utf8.h"

namespace plumb {
namespace {

struct Filtered {
  std::string text;
  bool stopped;
};

Filtered filter(const std::vector<std::string>& stop, const std::vector<std::string>& pieces) {
  StopFilter f(stop);
  std::string text;
  for (const auto& piece : pieces) text += f.add(piece);
  text += f.finish();
  return {text, f.stopped()};
}

TEST(StopFilter, FindsStringsThatSpanPieces) {
  const auto [text, stopped] = filter({"STOP"}, {"one S", "TO", "P two"});
  EXPECT_EQ(text, "one ");
  EXPECT_TRUE(stopped);
}

TEST(StopFilter, HoldsBackOnlyWhatMayBecomeOne) {
  StopFilter f({"abcd", "\n\n"});
  EXPECT_EQ(f.add("xab"), "x");
  EXPECT_EQ(f.add("c"), "");
  EXPECT_EQ(f.add("c"), "abcc");
  EXPECT_EQ(f.add("y\n"), "y");
  EXPECT_EQ(f.add("z"), "\nz");
  EXPECT_EQ(f.add("a"), "");
  EXPECT_EQ(f.finish(), "a");
  EXPECT_FALSE(f.stopped());
}

TEST(StopFilter, TheEarliestOfSeveralCuts) {
  EXPECT_EQ(filter({"later", "ear"}, {"an earlater end"}).text, "an ");
  EXPECT_EQ(filter({"b", "ab"}, {"xab"}).text, "x");
}

TEST(StopFilter, OverlappingBeginningsAreFound) {
  const auto [text, stopped] = filter({"aab"}, {"a", "a", "a", "b"});
  EXPECT_EQ(text, "a");
  EXPECT_TRUE(stopped);
}

TEST(StopFilter, NothingComesAfterIt) {
  StopFilter f({"."});
  EXPECT_EQ(f.add("a.b"), "a");
  EXPECT_EQ(f.add("c"), "");
  EXPECT_EQ(f.finish(), "");
}

struct Streamed {
  std::vector<std::string> pieces;
  std::string text;
  bool stopped = false;
};

Streamed stream(const std::string& bytes, const std::vector<std::string>& stop) {
  const Tokenizer tokenizer = Tokenizer::bytes();
  Streamed s;
  TextStream t(tokenizer, stop, [&](std::string_view piece) { s.pieces.emplace_back(piece); });
  for (const char c : bytes) t.add(static_cast<uint8_t>(c));
  t.finish();
  s.text = t.text();
  s.stopped = t.stopped();
  return s;
}

TEST(TextStream, NeverShowsHalfACharacter) {
  const std::string text = "aé€😀b";
  const Streamed s = stream(text, {});
  EXPECT_EQ(s.text, text);
  EXPECT_EQ(s.pieces, (std::vector<std::string>{"a", "é", "€", "😀", "b"}));
}

TEST(TextStream, BytesThatFormNoCharacterAreReplaced) {
  for (const std::string bytes : {"a\xff"
                                  "b",
                                  "\xf0\x9f\x98", "\x80\x80"}) {
    const Streamed s = stream(bytes, {"stop"});
    EXPECT_EQ(s.text, utf8_repaired(bytes));
    for (const auto& piece : s.pieces) EXPECT_EQ(utf8_fault(piece), kUtf8Valid);
  }
}

TEST(TextStream, StopStringsOfSeveralBytesPerCharacter) {
  const Streamed s = stream("ab😀€c", {"😀€"});
  EXPECT_TRUE(s.stopped);
  EXPECT_EQ(s.text, "ab");
  // A character that shares its first bytes with a stop string's is not held back once it is whole.
  EXPECT_EQ(stream("€", {"₭"}).text, "€");
}

}  // namespace
}  // namespace plumb
