#include "plumb/suggest.h"

#include <gtest/gtest.h>

namespace plumb {
namespace {

const std::vector<std::string> kNames = {"train", "generate", "eval", "info", "learning-rate", "layers"};

TEST(Suggest, FindsTheMistypedName) {
  EXPECT_EQ(nearest_name("trian", kNames), "train");  // a swap is one edit
  EXPECT_EQ(nearest_name("generat", kNames), "generate");
  EXPECT_EQ(nearest_name("learning_rate", kNames), "learning-rate");
  EXPECT_EQ(nearest_name("layer", kNames), "layers");
  EXPECT_EQ(nearest_name("info", kNames), "info");
}

TEST(Suggest, AnotherWordIsNotAMistypedOne) {
  EXPECT_EQ(nearest_name("export", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name("x", {}), "");
  EXPECT_EQ(nearest_name(std::string(1 << 20, 'a'), kNames), "");
}

TEST(Suggest, SaysSoInAMessage) {
  EXPECT_EQ(did_you_mean("evla", kNames), "; did you mean \"eval\"?");
  EXPECT_EQ(did_you_mean("quux", kNames), "");
}

}  // namespace
}  // namespace plumb
