#include "base/machine.h"

#include <gtest/gtest.h>

namespace plumb {
namespace {

TEST(Machine, IsDescribed) {
  const Machine here = machine();
  EXPECT_GE(here.cores, 1);
  EXPECT_GT(here.memory, 1 << 20);
  EXPECT_FALSE(here.processor.empty());
  EXPECT_NE(describe(here).find(here.processor), std::string::npos);
}

}  // namespace
}  // namespace plumb
