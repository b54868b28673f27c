#include "plumb/signal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

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
        std::this_thread::sleep_for(std::chrono::milliseconds(600));
        raise(SIGINT);
      },
      testing::ExitedWithCode(130), "");
}

TEST(Signal, TwoAtOnceAreOneRequest) {
  EXPECT_EXIT(
      {
        catch_stop_signals();
        raise(SIGTERM);
        raise(SIGTERM);
        _exit(stop_requested() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace plumb
