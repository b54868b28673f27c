#include "plumb/signal.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace plumb {
namespace {

TEST(Signal, FirstOneSetsTheFlag) {
  const auto interrupt = signal(SIGINT, SIG_DFL), terminate = signal(SIGTERM, SIG_DFL);
  catch_stop_signals();
  for (const int number : {SIGINT, SIGTERM}) {
    forget_stop();
    EXPECT_FALSE(stop_requested());
    raise(number);
    EXPECT_TRUE(stop_requested());
  }
  forget_stop();
  signal(SIGINT, interrupt);
  signal(SIGTERM, terminate);
}

TEST(Signal, SecondOneEndsTheProcess) {
  EXPECT_EXIT(
      {
        catch_stop_signals();
        raise(SIGINT);
        raise(SIGINT);
      },
      testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace plumb
