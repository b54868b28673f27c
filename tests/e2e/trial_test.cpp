// plumb trial: a grid of processes that may be killed at any point, and the page of what they did.
#include <gtest/gtest.h>

#include "e2e/train_run.h"

namespace plumb::test {
namespace {

class TrialRun : public TrainCommand {
 protected:
  ProcessResult trial(std::vector<std::string> more, ProcessOptions options = {}) {
    std::vector<std::string> all = {"trial", "--text",  "text.txt", "--tokenizer", "bytes", "--width",
                                    "16",    "--heads", "2",        "--layers",    "2",     "--max-length",
                                    "32",    "--batch", "2",        "--length",    "16",    "--held-out",
                                    "0.1",   "--out",   "t"};
    all.insert(all.end(), more.begin(), more.end());
    return plumb(all, options);
  }
  std::string cell(const std::string& name) { return "t/cells/" + name; }
};

TEST_F(TrialRun, RunsTheGridAndAddsToIt) {
  const std::vector<std::string> base{"--steps", "12", "--grid", "lr=1e-3,1e-2"};
  auto first = base, more = base;
  first.insert(first.end(), {"--grid", "seed=1..2"});
  more.insert(more.end(), {"--grid", "seed=1..3"});
  const auto made = trial(first);
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_NE(made.out.find("t/report.html"), std::string::npos);
  EXPECT_NE(made.err.find("lr=1e-2,seed=2: finished at step 12"), std::string::npos) << made.err;
  const std::string done = read_file(folder / cell("lr=1e-3,seed=1/metrics.jsonl"));
  const auto again = trial(more);
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.err.find("seed=1: running"), std::string::npos) << again.err;
  EXPECT_NE(again.err.find("seed=3: running"), std::string::npos) << again.err;
  EXPECT_EQ(read_file(folder / cell("lr=1e-3,seed=1/metrics.jsonl")), done);
  const auto other = trial({"--steps", "13", "--grid", "lr=1e-3,1e-2", "--grid", "seed=1..2"});
  expect_error(other, 2, {"another recipe", "lr=1e-3,seed=1"});
}

// Killed at a few points, and run again: the same losses as a run that was not.
TEST_F(TrialRun, GoesOnAfterAKillWithTheSameBits) {
  const std::vector<std::string> arguments{"--steps", "60",     "--grid", "seed=1,2",           "--grid",
                                           "lr=1e-3", "--jobs", "1",      "--checkpoint-every", "5"};
  for (const char* text : {"seed=1,lr=1e-3: running", "seed=2,lr=1e-3: running"}) {
    const auto killed = trial(arguments, {.signal_on = text, .signal = SIGKILL});
    ASSERT_EQ(killed.exit_code, 128 + SIGKILL) << killed.err;
  }
  const auto stopped = trial(arguments, {.signal_on = "running", .signal = SIGINT});
  if (stopped.exit_code != 0) {
    expect_error(stopped, 130, {"the same command goes on"});
  }
  const auto ended = trial(arguments);
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  auto whole = arguments;
  whole.insert(whole.end(), {"--out", "u"});
  ASSERT_EQ(trial(whole).exit_code, 0);
  for (const char* name : {"seed=1,lr=1e-3", "seed=2,lr=1e-3"}) {
    const auto cut = metrics(cell(name)), straight = metrics(std::string("u/cells/") + name);
    ASSERT_EQ(cut.size(), straight.size());
    for (size_t i = 0; i < cut.size(); ++i) EXPECT_EQ(cut[i], straight[i]) << name;
  }
}

TEST_F(TrialRun, ADivergedCellIsAResultAndAFailedOneAnError) {
  const auto made = trial(
      {"--steps", "40", "--grid", "lr=1e-2,1e38", "--clip", "0", "--most-skips", "3", "--optimizer", "sgd"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_NE(made.err.find("lr=1e38: diverged"), std::string::npos) << made.err;
  EXPECT_NE(made.out.find("not stable at lr 1e38"), std::string::npos) << made.out;
  std::filesystem::remove_all(folder / "t");
  const auto failed = trial({"--steps", "4", "--grid", "text=text.txt,none.txt"});
  EXPECT_EQ(failed.exit_code, 1) << failed.err;
  EXPECT_NE(failed.err.find("text=none.txt failed: "), std::string::npos) << failed.err;
}

TEST_F(TrialRun, RefusesWhatIsNoGrid) {
  expect_error(trial({}), 2, {"--grid"});
  expect_error(trial({"--grid", "lr"}), 2, {"KEY=VALUE"});
  expect_error(trial({"--grid", "lrr=1"}), 2, {"lrr", "did you mean \"lr\""});
  expect_error(trial({"--grid", "lr=fast"}), 2, {"fast"});
  expect_error(trial({"--grid", "lr=1,1"}), 2, {"twice"});
  expect_error(trial({"--grid", "seed=5..1"}), 2, {"5..1"});
  expect_error(trial({"--grid", "heads=3"}), 1, {"heads"});
  expect_error(trial({"--grid", "out=a,b"}), 2, {"out"});
  expect_error(trial({"--grid", "lr=1", "--jobs", "-1"}), 2, {"--jobs"});
  EXPECT_FALSE(std::filesystem::exists(folder / "t"));
}

}  // namespace
}  // namespace plumb::test
