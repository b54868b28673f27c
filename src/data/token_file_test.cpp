#include "data/token_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/test_support.h"

namespace plumb {
namespace {

class TokenFileTest : public testing::Test {
 protected:
  std::string path() const { return folder_ / "x.tokens"; }

  // Three training ids 1, 2, 3 and two held-out ones 4, 5.
  static std::string bytes(uint32_t id_bytes) {
    TokenFileHeader header;
    header.id_bytes = id_bytes;
    header.vocab_size = 100;
    header.train_count = 3;
    header.valid_count = 2;
    std::string text(kTokenFileHeader + 5 * id_bytes, '\0');
    std::memcpy(text.data(), &header, sizeof header);
    for (uint32_t i = 0; i < 5; ++i) text[kTokenFileHeader + i * id_bytes] = static_cast<char>(i + 1);
    return text;
  }
  std::string refusal(const std::string& content) const {
    write_file_atomically(path(), content);
    try {
      TokenFile file(path());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::file);
      const std::string start = "the token file '" + path() + "' cannot be used: ";
      EXPECT_EQ(std::string(error.what()).substr(0, start.size()), start);
      return std::string(error.what()).substr(start.size());
    }
    return "accepted";
  }
  TempFolder folder_;
};

TEST_F(TokenFileTest, ReadsBothPartsInBothWidths) {
  for (const uint32_t width : {2u, 4u}) {
    write_file_atomically(path(), bytes(width));
    const TokenFile file(path());
    std::vector<int32_t> train(3), valid(1);
    file.read(Split::train, 0, 3, train.data());
    file.read(Split::validation, 1, 1, valid.data());
    EXPECT_EQ(train, (std::vector<int32_t>{1, 2, 3}));
    EXPECT_EQ(valid, std::vector<int32_t>{5});
    EXPECT_EQ(file.count(Split::test), 0u);
  }
}

TEST_F(TokenFileTest, RefusesWhatIsMalformed) {
  std::string good = bytes(2);
  EXPECT_EQ(refusal(good), "accepted");
  EXPECT_EQ(refusal(""), "it has 0 bytes, less than its header");
  EXPECT_EQ(refusal(good.substr(0, 100)), "it has 100 bytes, less than its header");
  EXPECT_EQ(refusal(good.substr(0, good.size() - 1)),
            "it has 4105 bytes, which is not what 3 + 2 ids of 2 bytes take");
  EXPECT_EQ(refusal(good + "x"), "it has 4107 bytes, which is not what 3 + 2 ids of 2 bytes take");
  const auto with = [&](auto TokenFileHeader::*field, auto value) {
    TokenFileHeader header;
    std::memcpy(&header, good.data(), sizeof header);
    header.*field = value;
    std::string changed = good;
    std::memcpy(changed.data(), &header, sizeof header);
    return refusal(changed);
  };
  EXPECT_EQ(with(&TokenFileHeader::version, 9u), "its version is 9");
  EXPECT_EQ(with(&TokenFileHeader::id_bytes, 0u), "its ids have 0 bytes");
  for (const uint64_t count : {uint64_t{1} << 63, ~uint64_t{0}, uint64_t{4}}) {
    EXPECT_NE(with(&TokenFileHeader::train_count, count), "accepted");
    EXPECT_NE(with(&TokenFileHeader::valid_count, count), "accepted");
  }
  good[0] = 'x';
  EXPECT_EQ(refusal(good), "it is no token file");
}

TEST_F(TokenFileTest, IdsOutsideTheVocabularyAreRefused) {
  std::string damaged = bytes(2);
  damaged[kTokenFileHeader] = 100;
  write_file_atomically(path(), damaged);
  const TokenFile file(path());
  int32_t id;
  EXPECT_THROW(file.read(Split::train, 0, 1, &id), Error);
}

}  // namespace
}  // namespace plumb
