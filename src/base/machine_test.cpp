#include "base/machine.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

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
  // Straight from the system and back to it: an allocator may keep what it is given back.
  void* held = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(held, MAP_FAILED);
  volatile char* bytes = static_cast<char*>(held);
  for (int64_t i = 0; i < kBytes; i += 4096) bytes[i] = 1;
  ASSERT_EQ(munmap(held, kBytes), 0);
  EXPECT_GE(peak_resident_bytes(), before + kBytes / 2);
  const int64_t most = peak_resident_bytes();
  forget_peak_resident();
  if (access("/proc/self/clear_refs", W_OK) != 0) GTEST_SKIP() << "the system forgets no peak";
  EXPECT_LE(peak_resident_bytes(), most - kBytes / 2);
}

}  // namespace
}  // namespace plumb
