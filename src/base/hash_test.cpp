#include "base/hash.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "base/random.h"

namespace plumb {
namespace {

TEST(Hash, PiecesDoNotMatter) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += static_cast<char>(random_u64({1, 1}, i));
  for (uint64_t cut = 0; cut <= bytes.size(); ++cut) {
    Hash hash(5);
    hash.add(bytes.substr(0, cut));
    hash.add(bytes.substr(cut));
    EXPECT_EQ(hash.value(), hash_bytes(bytes, 5));
  }
}

TEST(Hash, SmallChangesSpread) {
  const std::string base(40, '\0');
  std::set<uint64_t> seen;
  double flipped = 0;
  for (int bit = 0; bit < 320; ++bit) {
    std::string changed = base;
    changed[bit / 8] = static_cast<char>(1 << bit % 8);
    seen.insert(hash_bytes(changed));
    flipped += std::popcount(hash_bytes(changed) ^ hash_bytes(base));
  }
  for (size_t length = 0; length < 40; ++length) seen.insert(hash_bytes(base.substr(0, length)));
  EXPECT_EQ(seen.size(), 360u);
  EXPECT_NEAR(flipped / 320, 32, 1.5);
  EXPECT_NE(hash_bytes("a", 1), hash_bytes("a", 2));
}

// Cache keys live in files: the value must not change.
TEST(Hash, IsStable) {
  EXPECT_EQ(hash_hex(hash_bytes("plumb")), "615386af51246ce6");
  EXPECT_EQ(hash_hex(hash_bytes("a longer text than one word", 7)), "89e4fa4acb11d435");
  EXPECT_EQ(hash_hex(0xabc), "0000000000000abc");
}

}  // namespace
}  // namespace plumb
