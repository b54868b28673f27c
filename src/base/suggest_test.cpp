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

TEST(Suggest, FindsANameByItsBeginningAndInAnyCase) {
  const std::vector<std::string> names = {"--batch", "rms-norm", "f32",      "bf16",
                                          "--s",     "decoder",  "deep-norm"};
  EXPECT_EQ(nearest_name("--batch-size", names), "--batch");
  EXPECT_EQ(nearest_name("rms", names), "rms-norm");
  EXPECT_EQ(nearest_name("BF16", names), "bf16");
  EXPECT_EQ(nearest_name("DeepNorm", names), "deep-norm");
  EXPECT_EQ(nearest_name("decoder-only", names), "decoder");
  EXPECT_EQ(nearest_name("--sample", names), "") << "one letter is no beginning";
  EXPECT_EQ(nearest_name("de", names), "");
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
