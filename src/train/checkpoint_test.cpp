#include "train/checkpoint.h"

#include <cstring>

#include "base/file.h"
#include "model/transformer.h"
#include "train/test_run.h"

namespace plumb {
namespace {

class Checkpoint : public ::testing::Test {
 protected:
  Checkpoint() { set_log_level(LogLevel::silent); }

  void write(const std::string& file) { write_checkpoint(file, state, identity, table(), optimizer); }
  ParameterTable& table() { return model.transformer().parameters(); }
  std::string read_error(ErrorKind kind, const std::string& file) {
    return error_of(kind, [&] { read_checkpoint(file, identity, table(), optimizer); });
  }

  TempFolder folder;
  Dataset data = Dataset::synthetic("copy");
  Model model = Model::create(small_config(data), 1);
  TrainOptions options;
  Optimizer optimizer{model.transformer().parameters(), options};
  RunIdentity identity{model.config(), options, "the data"};
  RunState state{.step = 7,
                 .tokens = 1234567890123,
                 .last_loss = 0.1 + 0.2,
                 .guard = {.window = {1.0 / 3, 2.5}, .skipped = 3, .spikes = 2, .skips_in_row = 1},
                 .best_validation = 1.0 / 7,
                 .best_step = 5};
};

TEST_F(Checkpoint, GivesBackEveryBit) {
  optimizer.set_steps(6);
  for (const auto& s : optimizer.state()) s.value.f32()[0] = 0.3f;
  const std::string path = checkpoint_path(folder / "checkpoints", 7);
  EXPECT_EQ(std::filesystem::path(path).filename(), "step-00000007.safetensors");
  write(path);

  const Model other = Model::create(model.config(), 2);
  ParameterTable& into = other.transformer().parameters();
  Optimizer fresh(into, options);
  const RunState back = read_checkpoint(path, identity, into, fresh);
  EXPECT_EQ(fresh.steps(), 6);
  EXPECT_EQ(back.step, 7);
  EXPECT_EQ(back.tokens, state.tokens);
  EXPECT_EQ(back.last_loss, state.last_loss);
  EXPECT_EQ(back.guard.window, state.guard.window);
  EXPECT_EQ(back.guard.skipped, 3);
  EXPECT_EQ(back.guard.spikes, 2);
  EXPECT_EQ(back.guard.skips_in_row, 1);
  EXPECT_EQ(back.best_validation, state.best_validation);
  EXPECT_EQ(back.best_step, 5);
  for (size_t i = 0; i < into.all().size(); ++i) {
    const Tensor &a = into.all()[i]->value, &b = table().all()[i]->value;
    EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.bytes()), 0) << into.all()[i]->name;
  }
  for (size_t i = 0; i < fresh.state().size(); ++i) {
    const Tensor &a = fresh.state()[i].value, &b = optimizer.state()[i].value;
    EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.bytes()), 0) << fresh.state()[i].name;
  }
}

TEST_F(Checkpoint, CutAnywhereIsAnErrorAndChangesNothing) {
  const std::string whole = folder / "whole.safetensors", cut = folder / "cut.safetensors";
  write(whole);
  const std::string bytes = read_file(whole);
  const float before = table().all()[0]->value.f32()[0];
  for (auto& p : table().all()) p->value.f32()[0] += 1;
  for (const size_t size : {size_t{0}, size_t{7}, size_t{100}, bytes.size() / 2, bytes.size() - 1}) {
    write_file_atomically(cut, std::string_view(bytes).substr(0, size));
    EXPECT_NE(read_error(ErrorKind::file, cut).find("cut.safetensors"), std::string::npos);
    EXPECT_EQ(table().all()[0]->value.f32()[0], before + 1);
  }
}

TEST_F(Checkpoint, OneBitFlippedAnywhereIsAnError) {
  const std::string whole = folder / "whole.safetensors", bad = folder / "bad.safetensors";
  write(whole);
  const std::string bytes = read_file(whole);
  for (const double where : {0.3, 0.5, 0.75, 0.999}) {
    std::string damaged = bytes;
    damaged[static_cast<size_t>(where * static_cast<double>(bytes.size()))] ^= 0x10;
    write_file_atomically(bad, damaged);
    EXPECT_NE(read_error(ErrorKind::file, bad).find("checksum"), std::string::npos) << where;
  }
  std::string damaged = bytes;  // in the state: another step, well-formed
  const size_t at = damaged.find("\\\"step\\\":7");
  ASSERT_NE(at, std::string::npos);
  damaged[at + 9] = '8';
  write_file_atomically(bad, damaged);
  EXPECT_NE(read_error(ErrorKind::file, bad).find("checksum"), std::string::npos);
}

TEST_F(Checkpoint, OfAnotherModelOrOtherDataOrOptimizerIsRefused) {
  const std::string path = folder / "a.safetensors";
  write(path);
  identity.data = "other data";
  EXPECT_NE(read_error(ErrorKind::input, path).find("other text"), std::string::npos);
  identity.data = "the data";
  identity.config.layer.norm_eps = 1e-6;
  EXPECT_NE(read_error(ErrorKind::config, path).find("another config"), std::string::npos);
  identity.config = model.config();
  Optimizer muon(table(), {.optimizer = OptimizerKind::muon});
  const std::string why =
      error_of(ErrorKind::config, [&] { read_checkpoint(path, identity, table(), muon); });
  EXPECT_NE(why.find("--optimizer"), std::string::npos);
}

TEST_F(Checkpoint, ChangedOptionsAreTold) {
  const std::string path = folder / "a.safetensors";
  write(path);
  identity.options.lr = 0.5;
  set_log_level(LogLevel::info);
  testing::internal::CaptureStderr();
  read_checkpoint(path, identity, table(), optimizer);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "going on with --lr 0.5 instead of 0.001\n");
}

TEST_F(Checkpoint, PruneKeepsTheNewestAndClearsWhatWasLeftHalfWritten) {
  const std::string checkpoints = folder / "checkpoints";
  EXPECT_TRUE(checkpoint_steps(checkpoints).empty());
  for (const int64_t step : {5, 10, 100000000}) write(checkpoint_path(checkpoints, step));
  for (const char* other : {"notes.txt", "step-5.safetensors.bak", ".step-00000020.safetensors.tmp"}) {
    write_file_atomically(join_path(checkpoints, other), "x");
  }
  EXPECT_EQ(checkpoint_steps(checkpoints), (std::vector<int64_t>{5, 10, 100000000}));
  prune_checkpoints(checkpoints, 2);
  EXPECT_EQ(list_folder(checkpoints), (std::vector<std::string>{"notes.txt", "step-00000010.safetensors",
                                                                "step-100000000.safetensors"}));
}

}  // namespace
}  // namespace plumb
