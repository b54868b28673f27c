// A run that is watched, from the outside: it is the run that it would have been, and a run that goes on
// continues its records.
#include "train_run.h"

namespace plumb::test {
namespace {

std::vector<std::string> run_into(const std::string& out, const std::string& probe_every) {
  return {"--steps",       "12",        "--eval-every", "4", "--eval-batches", "2", "--checkpoint-every", "3",
          "--probe-every", probe_every, "--out",        out};
}

TEST_F(TrainCommand, WatchingChangesNoBit) {
  ASSERT_EQ(train(run_into("watched", "1")).exit_code, 0);
  ASSERT_EQ(train(run_into("alone", "0")).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder / "watched/probe.jsonl"));
  EXPECT_FALSE(std::filesystem::exists(folder / "alone/probe.jsonl"));
  EXPECT_EQ(metrics("watched"), metrics("alone"));
  EXPECT_EQ(model_bytes("watched"), model_bytes("alone"));
}

TEST_F(TrainCommand, AResumedRunHasTheProbeOfOneThatNeverStopped) {
  ASSERT_EQ(train(run_into("straight", "2")).exit_code, 0);
  ProcessOptions killed;
  killed.signal_on = "step 8/12";
  EXPECT_EQ(train(run_into("killed", "2"), killed).exit_code, 128 + SIGKILL);
  ASSERT_EQ(plumb({"train", "--resume", "killed"}).exit_code, 0);
  EXPECT_EQ(read_file(folder / "killed/probe.jsonl"), read_file(folder / "straight/probe.jsonl"));
}

}  // namespace
}  // namespace plumb::test
