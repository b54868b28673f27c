#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plumb {
namespace {

// Known answers from the Random123 distribution (kat_vectors, philox4x32 10).
TEST(Random, PhiloxKnownAnswers) {
  const auto zero = random_block({0, 0}, 0);
  EXPECT_EQ(zero[0], 0x6627e8d5u);
  EXPECT_EQ(zero[1], 0xe169c58du);
  EXPECT_EQ(zero[2], 0xbc57ac4cu);
  EXPECT_EQ(zero[3], 0x9b00dbd8u);
  const auto ones = random_block({~0ull, ~0ull}, ~0ull);
  EXPECT_EQ(ones[0], 0x408f276du);
  EXPECT_EQ(ones[1], 0x41c83b0eu);
  EXPECT_EQ(ones[2], 0xa20bc7c6u);
  EXPECT_EQ(ones[3], 0x6d5451fdu);
}

TEST(Random, MomentsOfUniformAndNormal) {
  const RandomKey key{7, random_stream(1, 2)};
  double sum = 0, square = 0, uniform = 0;
  const int n = 200000;
  for (int i = 0; i < n; ++i) {
    const double x = random_normal(key, i);
    sum += x;
    square += x * x;
    uniform += random_uniform(key, i);
  }
  EXPECT_NEAR(sum / n, 0.0, 0.01);
  EXPECT_NEAR(square / n, 1.0, 0.01);
  EXPECT_NEAR(uniform / n, 0.5, 0.005);
}

TEST(Random, StreamsDiffer) {
  EXPECT_NE(random_stream(1, 2), random_stream(2, 1));
  EXPECT_NE(random_u64({1, 1}, 0), random_u64({1, 2}, 0));
}

}  // namespace
}  // namespace plumb
