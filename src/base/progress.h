// A progress line: on a terminal one line is rewritten (at most ten times a second), elsewhere plain lines
// are printed at most every few seconds. Written to stderr, dropped when the log level is above info.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plumb {

class Progress {
 public:
  explicit Progress(double seconds_between_lines = 5.0);  // where stderr is no terminal
  ~Progress();                                            // clears an unfinished line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool due() const;                    // whether show() would print now: build the text only then
  void show(std::string_view line);    // prints if due
  void finish(std::string_view line);  // prints always, and the line stays
  double seconds() const;              // since construction

 private:
  bool terminal_;
  double interval_, start_, last_ = -1e9;
};

// "42 %, 3.1 MB/s, 12 s left"; total 0 leaves out the share and the time left.
std::string progress_text(uint64_t bytes_done, uint64_t bytes_total, double seconds);

std::string format_duration(double seconds);  // "0.8 ms", "3.2 s", "4 min 05 s", "2 h 03 min", "3 d 04 h"
std::string format_count(double number);      // "999", "1.2k", "3.4M", "5.6G"
std::string format_bytes(double bytes);       // "999 B", "1.2 kB", "3.4 MB" (powers of 1000)
std::string format_percent(double share);     // 0.853 -> "85.3 %"
bool stderr_is_terminal();

}  // namespace plumb
