#include "base/machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

namespace plumb {
namespace {

TEST(Machine, IsDescribed) {
  const Machine here = machine();
  EXPECT_GE(here.cores, 1);
  EXPECT_GT(here.memory, 1 << 20);
  EXPECT_FALSE(here.processor.empty());
  EXPECT_NE(describe(here).find(here.processor), std::string::npos);
}

TEST(Machine, ForgettingThePeakLeavesWhatIsHeld) {
  constexpr int64_t kBytes = 64 << 20;
  const int64_t before = peak_resident_bytes();
  { const std::vector<char> held(kBytes, 'x'); }
  EXPECT_GE(peak_resident_bytes(), before + kBytes / 2);
  const int64_t most = peak_resident_bytes();
  forget_peak_resident();
  if (access("/proc/self/clear_refs", W_OK) != 0) GTEST_SKIP() << "the system forgets no peak";
  EXPECT_LE(peak_resident_bytes(), most - kBytes / 2);
}

}  // namespace
}  // namespace plumb
