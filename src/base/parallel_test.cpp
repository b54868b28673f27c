#include "base/parallel.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "plumb/threads.h"

namespace plumb {
namespace {

TEST(Parallel, EveryRoundOnceAndFailuresComeBack) {
  std::vector<int> seen(1000, 0);
  const auto most = static_cast<size_t>(threads());  // within a round it is 1
  parallel_for(seen.size(), [&](size_t i, size_t thread) {
    EXPECT_LT(thread, most);
    ++seen[i];
  });
  EXPECT_EQ(seen, std::vector<int>(1000, 1));
  EXPECT_THROW(parallel_for(100,
                            [](size_t i, size_t) {
                              if (i == 37) throw std::runtime_error("x");
                            }),
               std::runtime_error);
  parallel_for(0, [](size_t, size_t) { FAIL(); });
}

}  // namespace
}  // namespace plumb
