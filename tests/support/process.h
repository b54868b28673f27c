// Runs a program, usually the command under test, and tells what it printed and how it ended.
#pragma once

#include <csignal>
#include <string>
#include <utility>
#include <vector>

namespace plumb::test {

struct ProcessOptions {
  std::string folder;                                            // where it runs; "" is the test's own
  std::string input;                                             // its standard input
  std::vector<std::pair<std::string, std::string>> environment;  // added to the test's own
  double timeout_seconds = 120;                                  // then it is killed
  std::string signal_on;                                         // once its output holds this text ...
  int signal = SIGKILL;                                          // ... it gets this signal, once
  long max_file_bytes = 0;  // above 0: a write beyond this size of a file fails, as on a full disk
};

struct ProcessResult {
  int exit_code = 0;  // 128 + signal if a signal ended it, as a shell says it
  bool timed_out = false;
  std::string out;
  std::string err;
};

// arguments[0] is looked up in PATH; 127 if it cannot be run.
ProcessResult run_process(const std::vector<std::string>& arguments, const ProcessOptions& options = {});
ProcessResult run_plumb(std::vector<std::string> arguments, const ProcessOptions& options = {});

// What every refusal of the command looks like: the exit code, and one line on stderr that begins "plumb: ".
bool is_one_line_error(const ProcessResult& result, int exit_code);

}  // namespace plumb::test
