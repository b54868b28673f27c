#include "base/progress.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/log.h"

namespace plumb {
namespace {

TEST(Progress, Durations) {
  EXPECT_EQ(format_duration(0.00025), "250 us");
  EXPECT_EQ(format_duration(0.0042), "4.2 ms");
  EXPECT_EQ(format_duration(0.42), "420 ms");
  EXPECT_EQ(format_duration(3.25), "3.2 s");
  EXPECT_EQ(format_duration(59.4), "59 s");
  EXPECT_EQ(format_duration(59.7), "1 min 00 s");
  EXPECT_EQ(format_duration(245), "4 min 05 s");
  EXPECT_EQ(format_duration(3599.6), "1 h 00 min");
  EXPECT_EQ(format_duration(7380), "2 h 03 min");
  EXPECT_EQ(format_duration(86400 * 3.17), "3 d 04 h");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "?");
}

TEST(Progress, CountsAndBytes) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(999.6), "1.0k");
  EXPECT_EQ(format_count(1234), "1.2k");
  EXPECT_EQ(format_count(124e6), "124M");
  EXPECT_EQ(format_count(999.96e6), "1.0G");
  EXPECT_EQ(format_bytes(17), "17 B");
  EXPECT_EQ(format_bytes(3.44e6), "3.4 MB");
  EXPECT_EQ(format_percent(0.8534), "85.3 %");
}

TEST(Progress, TextOfATransfer) {
  EXPECT_EQ(progress_text(50, 200, 5), "25 %, 10 B/s, 15 s left");
  EXPECT_EQ(progress_text(200, 200, 2), "100 %, 100 B/s");
  EXPECT_EQ(progress_text(3000, 0, 1), "3.0 kB/s");
}

// The captured stderr is no terminal: plain lines, the first at once, then none until the interval is over.
TEST(Progress, PlainLinesAreRare) {
  testing::internal::CaptureStderr();
  Progress progress(3600);
  for (int i = 0; i < 100; ++i) progress.show("at work");
  progress.finish("done");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "at work\ndone\n");
}

TEST(Log, LevelsAndPrefixes) {
  testing::internal::CaptureStderr();
  log_debug("hidden");
  log_info("plain");
  log_warning("odd");
  set_log_level(LogLevel::error);
  log_warning("hidden");
  Progress progress(0);
  progress.show("hidden");
  log_error("bad");
  set_log_level(LogLevel::info);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "plain\nwarning: odd\nerror: bad\n");
}

}  // namespace
}  // namespace plumb
