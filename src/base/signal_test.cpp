#include "plumb/signal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace plumb {
namespace {

void signal_process(int number) {
  kill(getpid(), number);
}

bool stops_soon() {
  for (int i = 0; i < 1000 && !stop_requested(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return stop_requested();
}

TEST(Signal, SecondOneEndsTheProcess) {
  EXPECT_EXIT(
      {
        catch_stop_signals();
        signal_process(SIGINT);
        stops_soon();
        std::this_thread::sleep_for(std::chrono::milliseconds(600));
        signal_process(SIGINT);
        std::this_thread::sleep_for(std::chrono::seconds(5));
      },
      testing::ExitedWithCode(130), "");
}

TEST(Signal, EndsTheProcessUnlessItIsCaught) {
  EXPECT_EXIT(
      {
        keep_stop_signals_off_threads();
        signal_process(SIGTERM);
        std::this_thread::sleep_for(std::chrono::seconds(5));
      },
      testing::KilledBySignal(SIGTERM), "");
}

TEST(Signal, TwoAtOnceAreOneRequest) {
  EXPECT_EXIT(
      {
        catch_stop_signals();
        signal_process(SIGTERM);
        const bool stops = stops_soon();
        signal_process(SIGTERM);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        _exit(stops ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Signal, FirstOneSetsTheFlag) {
  catch_stop_signals();
  for (const int number : {SIGINT, SIGTERM}) {
    forget_stop();
    EXPECT_FALSE(stop_requested());
    signal_process(number);
    EXPECT_TRUE(stops_soon());
  }
  forget_stop();
}

// A handler that runs on a thread in the midst of a product damages the heap, so none does: not on this
// thread, nor on one that it starts.
TEST(Signal, NoThreadThatComputesTakesIt) {
  catch_stop_signals();
  const auto blocks = [] {
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, nullptr, &set);
    return sigismember(&set, SIGINT) == 1 && sigismember(&set, SIGTERM) == 1;
  };
  EXPECT_TRUE(blocks());
  bool other = false;
  std::thread([&] { other = blocks(); }).join();
  EXPECT_TRUE(other);
}

}  // namespace
}  // namespace plumb
