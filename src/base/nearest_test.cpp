#include "base/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace plumb {
namespace {

TEST(Nearest, Distances) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("layers", "lyaers"), 1);
  EXPECT_EQ(edit_distance("ca", "abc"), 3);  // a swapped pair is not edited again
  EXPECT_EQ(edit_distance("abcd", "badc"), 2);
}

TEST(Nearest, Names) {
  const std::vector<std::string> names = {"width", "layers", "heads", "head-size"};
  EXPECT_EQ(nearest_name("laeyrs", names), "layers");
  EXPECT_EQ(nearest_name("head", names), "heads");
  EXPECT_EQ(nearest_name("zzzzz", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(did_you_mean("widht", names), ", did you mean 'width'?");
  EXPECT_EQ(did_you_mean("optimizer", names), "");
}

}  // namespace
}  // namespace plumb
