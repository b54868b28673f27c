#include "plumb/signal.h"

#include <signal.h>
#include <unistd.h>

namespace plumb {
namespace {

volatile sig_atomic_t stop_flag = 0;

void on_stop(int number) {
  if (stop_flag) _exit(128 + number);
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
