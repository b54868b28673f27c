#include "plumb/threads.h"

#include <gtest/gtest.h>

#include "plumb/error.h"

namespace plumb {
namespace {

TEST(Threads, SetIsWhatAParallelRegionGets) {
  const int before = threads();
  set_threads(3);
  EXPECT_EQ(threads(), 3);
  int inside = 0;
#pragma omp parallel reduction(+ : inside)
  inside += 1;
  EXPECT_EQ(inside, 3);
  set_threads(before);
}

TEST(Threads, OutOfRangeIsAnError) {
  EXPECT_THROW(set_threads(0), Error);
  EXPECT_THROW(set_threads(-1), Error);
  EXPECT_THROW(set_threads(1025), Error);
}

}  // namespace
}  // namespace plumb
