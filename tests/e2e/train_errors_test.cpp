// Bad input to `plumb train`: one line that names the cause, a non-zero exit, nothing damaged or left half
// made.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "train_run.h"

namespace plumb::test {
namespace {

class TrainErrors : public TrainCommand {
 protected:
  void expect_recipe_error(const std::string& recipe, const std::vector<std::string>& names) {
    write_file(folder / "bad.toml", recipe);
    const ProcessResult r = train({"bad.toml"});
    EXPECT_TRUE(is_one_line_error(r, 2)) << r.err;
    expect_error(r, 2, names);
    EXPECT_FALSE(std::filesystem::exists(folder / "runs"));
  }
  void expect_flag_error(const std::vector<std::string>& flags, int code,
                         const std::vector<std::string>& names) {
    const ProcessResult r = train(flags);
    expect_error(r, code, names);
    EXPECT_FALSE(std::filesystem::exists(folder / "runs")) << "a run that cannot be leaves no folder";
  }
};

TEST_F(TrainErrors, Recipes) {
  expect_recipe_error("steps = 3\nlearning-rate = 0.1\n",
                      {"bad.toml line 2", "learning-rate", "not a setting"});
  expect_recipe_error("weight_decay = 0.1\n", {"bad.toml line 1", "did you mean \"weight-decay\"?"});
  expect_recipe_error("\nsteps = \"many\"\n", {"bad.toml line 2: steps", "string", "a whole number"});
  expect_recipe_error("steps = 3.5\n", {"line 1: steps", "a whole number"});
  expect_recipe_error("recompute = 1\n", {"line 1: recompute", "true or false"});
  expect_recipe_error("optimizer = \"adam\"\n",
                      {"line 1: optimizer", "adamw, sgd, muon", "did you mean \"adamw\"?"});
  expect_recipe_error("[training]\nsteps = 3\n", {"line 1: training", "not a setting"});
  expect_recipe_error("steps = 3\nsteps = 4\n", {"bad.toml line 2"});
  expect_recipe_error("steps = \n", {"bad.toml line 1"});
  expect_recipe_error("steps = 0\n", {"--steps is 0", "at least 1"});
  expect_recipe_error("seed = -1\n", {"bad.toml line 1: seed is -1", "from 0 to"});
  expect_recipe_error("seed = \"one\"\n", {"bad.toml line 1: seed is \"one\"", "a whole number"});
  expect_recipe_error("seed = 0.5\n", {"bad.toml line 1: seed", "a whole number"});
  expect_error(train({"no-such-recipe.toml"}), 2, {"no-such-recipe.toml", "default"});
  expect_error(train({"defualt"}), 2, {"did you mean \"default\"?"});
}

TEST_F(TrainErrors, Flags) {
  expect_flag_error({"--stepz", "3"}, 2, {"--stepz", "--steps"});
  expect_flag_error({"--steps", "three"}, 2, {"--steps", "three"});
  expect_flag_error({"--steps", "99999999999999999999"}, 2,
                    {"--steps is 99999999999999999999: expected a whole number", "to 9223372036854775807"});
  expect_flag_error({"--steps", "9000000000000000001"}, 2, {"--steps is 9000000000000000001", "at most"});
  expect_flag_error({"--lr", "1e999"}, 2, {"--lr is 1e999", "1e308"});
  expect_flag_error({"--lr", "-1"}, 2, {"--lr is -1", "above 0"});
  expect_flag_error({"--lr", "nan"}, 2, {"--lr", "finite"});
  expect_flag_error({"--beta1", "1"}, 2, {"--beta1 is 1", "below 1"});
  expect_flag_error({"--seed", "-3"}, 2,
                    {"--seed is -3: expected a whole number from 0 to 18446744073709551615"});
  expect_flag_error({"--seed", "18446744073709551616"}, 2, {"--seed is 18446744073709551616: expected"});
  expect_flag_error({"--seed", "-"}, 2, {"--seed is \"-\": expected a whole number"});
  expect_flag_error({"--placement", "pre-nrom"}, 2, {"--placement", "did you mean \"pre-norm\"?"});
  expect_flag_error({"--dtype", "BF16"}, 2, {"--dtype", "did you mean \"bf16\"?"});
  expect_flag_error({"--norm", "rms"}, 2, {"--norm", "did you mean \"rms-norm\"?"});
  expect_flag_error({"--batch-size", "3"}, 2, {"--batch-size; did you mean \"--batch\"?"});
  for (const char* flag : {"--probe-every", "--sample-tokens", "--layers", "--vocab-size"})
    expect_flag_error({flag, "-1"}, 2, {flag + std::string(" is -1: it has to be at least 0")});
  expect_flag_error({"--tokenizer", "bpe", "--vocab-size", "99999999999999"}, 2,
                    {"99999999999999", "16777216"});
  expect_flag_error({"--task", "revers"}, 2, {"revers", "reverse"});
  expect_flag_error({"--kind", "encoder-decoder"}, 2, {"--task"});
}

TEST_F(TrainErrors, ConfigsThatCannotBe) {
  expect_flag_error({"--heads", "5"}, 1, {"heads"});
  expect_flag_error({"--width", "0"}, 1, {"width"});
  expect_flag_error({"--kv-heads", "3"}, 1, {"kv_heads"});
  expect_flag_error({"--dropout", "1.5"}, 1, {"dropout"});
  expect_flag_error({"--length", "33"}, 2, {"--length is 33", "32"});
  expect_flag_error({"--model-type", "gtp2"}, 1, {"gtp2", "did you mean \"gpt2\"?"});
  expect_flag_error({"--alpha", "1e300"}, 1, {"alpha is 1e+300", "1e30"});
  expect_flag_error({"--lr", "1e300"}, 2, {"--lr is 1e+300", "at most 3e+38"});
  expect_flag_error({"--heads", "65536", "--head-dim", "65536"}, 1,
                    {"weights and their gradients", "this machine has"});
  expect_flag_error({"--layers", "1000", "--ffn-width", "16777216"}, 1, {"this machine has"});
  expect_flag_error({"--batch", "1000000", "--ffn-width", "100000"}, 1,
                    {"1000000 sequences (--batch)", "this machine has"});
  expect_flag_error({"--placement", "ngpt", "--norm", "layer-norm"}, 2,
                    {"--norm is layer-norm", "ngpt", "its own"});
  expect_flag_error({"--placement", "fixup", "--norm", "dyt"}, 2, {"--norm is dyt", "fixup", "shifts"});
  expect_flag_error({"--streams", "3"}, 1, {"streams is 3", "mixing"});
}

TEST_F(TrainErrors, Texts) {
  write_file(folder / "empty.txt", "");
  write_file(folder / "latin1.txt", std::string(5000, 'a') + "\xe9\xe8" + std::string(5000, 'b'));
  write_file(folder / "binary", std::string(9000, '\0'));
  write_file(folder / "short.txt", "few");
  std::filesystem::create_directory(folder / "nothing");
  const auto text = [&](const std::string& path, const std::vector<std::string>& names) {
    expect_flag_error({"--text", path}, 1, names);
  };
  text("missing.txt", {"missing.txt", "No such file"});
  text("empty.txt", {"empty.txt"});
  text("latin1.txt", {"latin1.txt", "5000"});
  text("binary", {"binary"});
  text("nothing", {"nothing"});
  text("short.txt", {"4 tokens", "length 16"});
}

TEST_F(TrainErrors, Folders) {
  ASSERT_EQ(train({"--steps", "2", "--out", "run"}).exit_code, 0);
  const std::string recipe = read_file(folder / "run/recipe.toml"), model = model_bytes("run");
  expect_error(train({"--steps", "3", "--out", "run"}), 2,
               {"run already holds a run", "--resume run", "--out"});
  EXPECT_EQ(read_file(folder / "run/recipe.toml"), recipe);
  EXPECT_EQ(model_bytes("run"), model);
  expect_error(plumb({"train", "--resume", "nowhere"}), 1, {"nowhere is not the folder of a run"});
  expect_error(plumb({"train", "--resume", "run", "--out", "other"}), 2, {"--resume", "--out"});
  expect_error(plumb({"train", "default", "--resume", "run"}), 2, {"--resume"});
  expect_error(plumb({"train", "--resume", "run", "--width", "64"}), 1, {"another config"});
  write_file(folder / "text.txt", "Another text. " + std::string(9000, 'x'));
  expect_error(plumb({"train", "--resume", "run", "--steps", "4"}), 1, {"other text"});
  write_file(folder / "file", "x");
  expect_error(train({"--out", "file/run"}), 1, {"file"});
  if (geteuid() == 0) return;  // root may write anywhere
  std::filesystem::create_directory(folder / "locked");
  chmod((folder / "locked").c_str(), 0500);
  expect_error(train({"--out", "locked/run"}), 1, {"locked"});
}

}  // namespace
}  // namespace plumb::test
