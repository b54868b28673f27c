#include "plumb/signal.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

namespace plumb {
namespace {

volatile sig_atomic_t stop_flag = 0;
timespec first_stop;  // when a signal set the flag

// timeout(1) signals its child and then the group that the child is in: that is one request, not two.
constexpr double kOneRequest = 0.5;  // seconds

double seconds_since(const timespec& then, const timespec& now) {
  return static_cast<double>(now.tv_sec - then.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec - then.tv_nsec);
}

void on_stop(int number) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (stop_flag && seconds_since(first_stop, now) > kOneRequest) _exit(128 + number);
  if (!stop_flag) first_stop = now;
  stop_flag = 1;
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
  return stop_flag != 0;
}
void request_stop() {
  stop_flag = 1;
}
void forget_stop() {
  stop_flag = 0;
}

}  // namespace plumb
