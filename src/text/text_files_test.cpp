#include "text/text_files.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/random.h"
#include "base/test_support.h"
#include "base/utf8.h"

namespace plumb {
namespace {

class TextFilesTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  std::string write(const std::string& name, std::string_view bytes) const {
    write_file_atomically(path(name), bytes);
    return path(name);
  }
  TempFolder folder_;
};

std::string check(const std::string& name) {
  return error_of(ErrorKind::input, [&] {
    auto files = list_text_files({name});
    check_text_files(files);
  });
}

using namespace std::string_literals;

TEST_F(TextFilesTest, NamedFilesMustBeText) {
  EXPECT_EQ(error_of(ErrorKind::file, [&] { list_text_files({path("none")}); }),
            "cannot read '" + path("none") + "': No such file or directory");
  EXPECT_EQ(check(write("empty", "")), "'" + path("empty") + "' is empty, expected UTF-8 text");
  EXPECT_EQ(check(write("nul", "abc\0def"s)), "'" + path("nul") + "' is not text: NUL byte at offset 3");
  EXPECT_EQ(check(write("latin", "caf\xe9 au lait")),
            "'" + path("latin") + "' is not UTF-8: byte 0xe9 at offset 3 does not belong to a character");
  EXPECT_EQ(check(write("far", std::string(3'000'000, 'x') + "\xff")),
            "'" + path("far") + "' is not UTF-8: byte 0xff at offset 3000000 does not belong to a character");
  EXPECT_EQ(check(write("cut", "12 \xe2\x82")),
            "'" + path("cut") + "' is not UTF-8: byte 0xe2 at offset 3 does not belong to a character");
}

TEST_F(TextFilesTest, FoldersSkipWhatIsNoText) {
  write("art", "one");
  write("art.dat", "\0\1"s);
  write("old", "\xe9");
  write("none", "");
  write("sub", "two two");
  ASSERT_EQ(symlink("art", path("art.u8").c_str()), 0);
  auto files = list_text_files({folder_.str(), path("art")});
  const uint64_t hash = check_text_files(files);
  ASSERT_EQ(files.files.size(), 2u);
  EXPECT_EQ(files.files[0].path, path("art"));
  EXPECT_EQ(files.files[1].path, path("sub"));
  EXPECT_EQ(files.bytes, 10u);
  EXPECT_EQ(skip_notice(files),
            "skipped 5 of 7 files: 1 empty (none), 1 not UTF-8 (old), 2 the same as another (art.u8 ...), "
            "1 with NUL bytes (art.dat)");
  write("sub", "two twx");
  auto changed = list_text_files({folder_.str()});
  EXPECT_NE(check_text_files(changed), hash);
}

TEST_F(TextFilesTest, NothingLeftIsAnError) {
  EXPECT_EQ(error_of(ErrorKind::input, [&] { list_text_files({folder_.str()}); }),
            "no UTF-8 text file was found in " + folder_.str());
  write("x.dat", "\0"s);
  EXPECT_EQ(check(folder_.str()),
            "no UTF-8 text file was found: skipped 1 of 1 files: 1 with NUL bytes (x.dat)");
}

TEST_F(TextFilesTest, PiecesAreTheFileAndEndBeforeBlanks) {
  const RandomKey key{5, 0};
  uint64_t draw = 0;
  const std::vector<std::string> parts = {" ", "\n", "a", "bc", "é", "\u3000", "🦙", "\t", "word"};
  for (int round = 0; round < 60; ++round) {
    std::string text;
    for (uint64_t n = random_below(key, draw++, 200) + 1; n > 0; --n)
      text += parts[random_below(key, draw++, parts.size())];
    TextReader reader(write("text", text), 16 + random_below(key, draw++, 30));
    std::string whole;
    for (std::string piece; reader.next(piece);) {
      ASSERT_FALSE(piece.empty());
      ASSERT_EQ(utf8_fault(piece), kUtf8Valid);
      const bool edge = whole.empty() || piece[0] == ' ' || piece[0] == '\n' || piece[0] == '\t';
      // The piece before had no such place: then it is a run without one, of full length.
      ASSERT_TRUE(edge || whole.size() >= 16);
      whole += piece;
    }
    ASSERT_EQ(whole, text);
  }
}

TEST_F(TextFilesTest, OneLongLineIsRead) {
  const std::string text(100'000, 'x');
  TextReader reader(write("long", text), 1000);
  std::string whole;
  for (std::string piece; reader.next(piece);) {
    EXPECT_LE(piece.size(), 1003u);
    whole += piece;
  }
  EXPECT_EQ(whole, text);
}

}  // namespace
}  // namespace plumb
