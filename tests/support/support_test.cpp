#include <cmath>
#include <vector>

#include "support/files.h"
#include "support/process.h"
#include "support/tolerance.h"

namespace plumb::test {
namespace {

TEST(Process, CapturesBothStreamsAndTheExitCode) {
  const auto result = run_process({"sh", "-c", "cat; echo problem >&2; exit 3"}, {.input = "some text"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "some text");
  EXPECT_EQ(result.err, "problem\n");
  EXPECT_FALSE(result.timed_out);
}

TEST(Process, EndsWhatHangs) {
  const auto result = run_process({"sleep", "100"}, {.timeout_seconds = 0.05});
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
}

TEST(Process, SignalsOnATextOfTheOutput) {
  const auto result = run_process({"sh", "-c", "trap 'exit 9' INT; echo ready; while :; do sleep 0.01; done"},
                                  {.timeout_seconds = 20, .signal_on = "ready", .signal = SIGINT});
  EXPECT_EQ(result.exit_code, 9);
}

TEST(Process, FolderEnvironmentAndFileLimit) {
  TempFolder folder;
  const auto result = run_process(
      {"sh", "-c", "pwd; echo $COLOUR; head -c 5000 /dev/zero > big; wc -c < big"},
      {.folder = folder.path().string(), .environment = {{"COLOUR", "green"}}, .max_file_bytes = 1000});
  EXPECT_EQ(result.out, folder.path().string() + "\ngreen\n1000\n");
}

TEST(Process, WhatCannotBeRun) {
  EXPECT_EQ(run_process({"/no/such/program"}).exit_code, 127);
}

TEST(Files, TempFolderGoesWithItsContent) {
  std::filesystem::path path;
  {
    TempFolder folder;
    path = folder.path();
    write_file(path / "a" / "b.txt", std::string("one\0two", 7));
    EXPECT_EQ(read_file(path / "a" / "b.txt"), std::string("one\0two", 7));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Tolerance, PassesAndFails) {
  const std::vector<float> want = {1, -2, 0};
  const auto near = [&](std::vector<float> got, const Tolerance& tolerance) {
    return all_near<float, float>(got, want, tolerance);
  };
  EXPECT_TRUE(near({1, -2, 0}, kSameBits));
  EXPECT_TRUE(near({1.0001f, -2.0001f, 0.00005f}, kNearF32));
  EXPECT_FALSE(near({1.001f, -2, 0}, kNearF32));
  EXPECT_FALSE(near({1, -2, 0.001f}, kNearF32));
  EXPECT_FALSE(near({1, NAN, 0}, kNearBF16));
  EXPECT_FALSE(near({1, -INFINITY, 0}, kNearBF16));
  EXPECT_FALSE(near({1, -2}, kNearBF16));
}

}  // namespace
}  // namespace plumb::test
