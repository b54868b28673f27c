#include "plumb/signal.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>

namespace plumb {
namespace {

std::atomic<bool> stop_flag{false};
std::atomic<bool> are_caught{false};
std::atomic<int64_t> first_stop{0};  // when a signal set the flag, ns

// timeout(1) signals its child and then the group that the child is in: that is one request, not two.
constexpr int64_t kOneRequest = 500'000'000;  // ns

int64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec;
}

void on_stop(int number) {
  if (!stop_flag.exchange(true)) {
    first_stop = now();
  } else if (now() - first_stop > kOneRequest) {
    _exit(128 + number);
  }
}

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

// As the signal would have without any of this.
void end_process(int number) {
  struct sigaction given;
  if (sigaction(number, nullptr, &given) == 0 && given.sa_handler == SIG_IGN) return;
  const sigset_t set = stop_signals();
  signal(number, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(number);
}

void wait_for_signals() {
  const sigset_t set = stop_signals();
  for (int number = 0; sigwait(&set, &number) == 0;) are_caught ? on_stop(number) : end_process(number);
}

}  // namespace

void keep_stop_signals_off_threads() {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  static std::atomic<pid_t> waits{0};  // a forked process has no such thread
  if (waits.exchange(getpid()) != getpid()) std::thread(wait_for_signals).detach();
}

void catch_stop_signals() {
  are_caught = true;
  keep_stop_signals_off_threads();
}

bool stop_requested() {
  return stop_flag;
}
void request_stop() {
  stop_flag = true;
}
void forget_stop() {
  stop_flag = false;
}

}  // namespace plumb
