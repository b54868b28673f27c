// `plumb train` from the outside: what it leaves, and that a run which was stopped or killed goes on to the
// bit.
#include "plumb/trainer.h"
#include "train_run.h"

#include <filesystem>

namespace plumb::test {
namespace {

const std::vector<std::string> kRun = {"--steps",        "24", "--eval-every",       "4",
                                       "--eval-batches", "2",  "--checkpoint-every", "3"};

std::vector<std::string> run_into(const std::string& out) {
  std::vector<std::string> all = kRun;
  all.insert(all.end(), {"--out", out});
  return all;
}

TEST_F(TrainCommand, LeavesAWholeRunFolder) {
  const ProcessResult r = train(run_into("runs/a"));
  ASSERT_EQ(r.exit_code, 0) << r.err;
  for (const char* name :
       {"recipe.toml", "tokenizer.json", "metrics.jsonl", "probe.jsonl", "report.html", "sample.txt",
        "model/config.json", "model/model.safetensors", "model/tokenizer.json",
        "checkpoints/step-00000021.safetensors", "checkpoints/step-00000024.safetensors"}) {
    EXPECT_TRUE(std::filesystem::exists(folder / ("runs/a/" + std::string(name)))) << name;
  }
  EXPECT_NE(r.out.find("runs/a/report.html"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("plumb train --resume runs/a"), std::string::npos) << r.out;
  EXPECT_NE(r.err.find("step 24/24, loss "), std::string::npos) << r.err;
  const auto lines = metrics("runs/a");
  EXPECT_EQ(lines.size(), 24u + 6u);
  EXPECT_LT(lines.back().at("validation_loss"), lines[4].at("validation_loss"));
}

TEST_F(TrainCommand, KilledAndResumedIsTheSameToTheBit) {
  ASSERT_EQ(train(run_into("straight")).exit_code, 0);
  ProcessOptions killed;
  killed.signal_on = "step 8/24";  // the line of its evaluation
  EXPECT_EQ(train(run_into("killed"), killed).exit_code, 128 + SIGKILL);
  killed.signal_on = "step 16/24";
  EXPECT_EQ(plumb({"train", "--resume", "killed"}, killed).exit_code, 128 + SIGKILL);
  EXPECT_FALSE(std::filesystem::exists(folder / "killed/report.html"));
  const ProcessResult r = plumb({"train", "--resume", "killed"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_NE(r.err.find("going on with killed from step "), std::string::npos) << r.err;
  EXPECT_EQ(metrics("killed"), metrics("straight"));
  EXPECT_EQ(model_bytes("killed"), model_bytes("straight"));
  EXPECT_EQ(read_file(folder / "killed/sample.txt"), read_file(folder / "straight/sample.txt"));
}

TEST_F(TrainCommand, CtrlCSavesSaysHowToGoOnAndExits130) {
  ASSERT_EQ(train(run_into("straight")).exit_code, 0);
  ProcessOptions stopped;
  stopped.signal_on = "step 4/24";
  stopped.signal = SIGINT;
  const ProcessResult r = train(run_into("stopped"), stopped);
  expect_error(r, 130, {"stopped after step ", " of 24", "plumb train --resume stopped"});
  EXPECT_TRUE(std::filesystem::exists(folder / "stopped/model/model.safetensors"));
  ASSERT_EQ(plumb({"train", "--resume", "stopped"}).exit_code, 0);
  EXPECT_EQ(metrics("stopped"), metrics("straight"));
  EXPECT_EQ(model_bytes("stopped"), model_bytes("straight"));
}

// A file of at most so many bytes: as on a disk that fills up while a checkpoint is written.
TEST_F(TrainCommand, AFullDiskEndsTheRunAndDamagesNothing) {
  ASSERT_EQ(train(run_into("straight")).exit_code, 0);
  ProcessOptions killed;
  killed.signal_on = "step 12/24";
  EXPECT_EQ(train(run_into("run"), killed).exit_code, 128 + SIGKILL);
  ProcessOptions full;
  full.max_file_bytes = 100000;
  expect_error(plumb({"train", "--resume", "run"}, full), 1, {"cannot write 'run/", "File too large"});
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "run")) {
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  }
  ASSERT_EQ(plumb({"train", "--resume", "run"}).exit_code, 0);
  EXPECT_EQ(metrics("run"), metrics("straight"));
  EXPECT_EQ(model_bytes("run"), model_bytes("straight"));
}

TEST_F(TrainCommand, ACutCheckpointIsPassedOverByName) {
  ASSERT_EQ(train(run_into("run")).exit_code, 0);
  const std::string before = model_bytes("run");
  std::filesystem::resize_file(folder / "run/checkpoints/step-00000024.safetensors", 1000);
  const ProcessResult r = plumb({"train", "--resume", "run"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_NE(r.err.find("warning: passed over a checkpoint: run/checkpoints/step-00000024.safetensors"),
            std::string::npos)
      << r.err;
  EXPECT_NE(r.err.find("from step 21"), std::string::npos) << r.err;
  EXPECT_EQ(model_bytes("run"), before);
}

TEST_F(TrainCommand, FlagsWinOverTheRecipeAndTheResolvedOneIsSaved) {
  write_file(folder / "mine.toml", "steps = 6\nlr = 0.01\nfreeze = [\"decoder.1.\"]\neval-every = 0\n");
  std::vector<std::string> flags = {"mine.toml", "--lr", "0.005", "--no-norm-affine"};
  ASSERT_EQ(train(flags).exit_code, 0);
  const std::string recipe = read_file(folder / "runs/mine/recipe.toml");
  for (const char* line :
       {"steps = 6\n", "lr = 0.005\n", "freeze = [\"decoder.1.\"]\n", "norm-affine = false\n",
        "vocab-size = 259\n", "kind = \"decoder\"\n", "width = 32\n"}) {
    EXPECT_NE(recipe.find(line), std::string::npos) << line << recipe;
  }
  const auto lines = metrics("runs/mine");
  EXPECT_EQ(lines.size(), 7u);
  // The same again from the resolved recipe alone, into a folder of its own.
  ASSERT_EQ(plumb({"train", "runs/mine/recipe.toml", "--out", "again"}).exit_code, 0);
  EXPECT_EQ(metrics("again"), lines);
  ASSERT_EQ(train(flags).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder / "runs/mine-2/report.html"));
}

// A recipe's layers are of both sides; a flag for one of them says otherwise, also when the saved recipe
// runs.
TEST_F(TrainCommand, AFlagForOneSidesLayersWinsOverTheRecipesLayers) {
  const auto layers_of = [&](const std::string& run) {
    const auto config = nlohmann::json::parse(read_file(folder / (run + "/model/config.json")));
    return std::pair(config.at("encoder_layers").get<int>(), config.at("decoder_layers").get<int>());
  };
  const std::vector<std::string> small = {"--steps", "1", "--batch",       "2", "--width",         "16",
                                          "--heads", "2", "--probe-every", "0", "--sample-tokens", "0"};
  const auto run = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), "train");
    flags.insert(flags.end(), small.begin(), small.end());
    const ProcessResult r = plumb(flags);
    ASSERT_EQ(r.exit_code, 0) << r.err;
  };
  run({"default", "--text", "text.txt", "--tokenizer", "bytes", "--decoder-layers", "2", "--out", "decoder"});
  EXPECT_EQ(layers_of("decoder"), std::pair(0, 2));
  run({"reverse", "--decoder-layers", "3", "--out", "both"});
  EXPECT_EQ(layers_of("both"), std::pair(2, 3));
  run({"both/recipe.toml", "--out", "again"});
  EXPECT_EQ(layers_of("again"), std::pair(2, 3));
  run({"both/recipe.toml", "--layers", "1", "--out", "fewer"});
  EXPECT_EQ(layers_of("fewer"), std::pair(1, 1));
}

// Every built-in recipe, cut down to a size that a test can afford.
TEST_F(TrainCommand, EverySeedOf64BitsRunsAndGoesOn) {
  const std::string most = "18446744073709551615", beyond_toml = "9223372036854775808";
  ASSERT_EQ(train({"--steps", "4", "--out", "straight", "--seed", most}).exit_code, 0);
  ASSERT_EQ(train({"--steps", "2", "--out", "run", "--seed", most}).exit_code, 0);
  EXPECT_NE(read_file(folder / "run/recipe.toml").find("seed = \"" + most + "\""), std::string::npos);
  const ProcessResult r = plumb({"train", "--resume", "run", "--steps", "4"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(r.err.find("--seed"), std::string::npos) << "the seed is no change: " << r.err;
  ASSERT_EQ(train({"--steps", "2", "--out", "other", "--seed", beyond_toml}).exit_code, 0);
  EXPECT_NE(metrics("other").front(), metrics("run").front());
}

TEST_F(TrainCommand, BuiltInRecipesRun) {
  for (const std::string& name : recipe_names()) {
    std::vector<std::string> all = {"train",        name,  "--steps",         "2", "--width",        "32",
                                    "--heads",      "2",   "--layers",        "2", "--batch",        "2",
                                    "--length",     "16",  "--accumulation",  "1", "--eval-batches", "1",
                                    "--vocab-size", "300", "--sample-tokens", "4"};
    if (recipe_text(name).find("task = ") == std::string::npos) all.insert(all.end(), {"--text", "text.txt"});
    const ProcessResult r = plumb(all);
    EXPECT_EQ(r.exit_code, 0) << name << "\n" << r.err;
    EXPECT_TRUE(std::filesystem::exists(folder / ("runs/" + name + "/report.html"))) << name;
  }
}

TEST_F(TrainCommand, StartsFromAModelsWeights) {
  ASSERT_EQ(train({"--steps", "6", "--eval-every", "0", "--out", "first"}).exit_code, 0);
  const ProcessResult r = plumb({"train", "--from", "first/model", "--text", "text.txt", "--steps", "3",
                                 "--batch", "2", "--length", "16", "--held-out", "0.1", "--out", "second"});
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_LT(metrics("second")[0].at("loss"), metrics("first")[0].at("loss"));
  ASSERT_EQ(plumb({"train", "--resume", "second", "--steps", "4"}).exit_code, 0);
  EXPECT_EQ(metrics("second").back().at("step"), 4);
  expect_error(plumb({"train", "--from", "first/model", "--width", "64"}), 2, {"--width", "--from"});
}

}  // namespace
}  // namespace plumb::test
