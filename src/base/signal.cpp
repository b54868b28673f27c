#include "plumb/signal.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace plumb {
namespace {

// Lock-free, as a handler needs, and seen by all threads.
std::atomic<bool> stop_flag{false};
std::atomic<int64_t> first_stop{0};  // when a signal set the flag, ns
static_assert(std::atomic<int64_t>::is_always_lock_free);

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

}  // namespace

void catch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = on_stop;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
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
