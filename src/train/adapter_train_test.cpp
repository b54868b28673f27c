// Runs that train an adapter alone.
#include "base/file.h"
#include "model/safetensors.h"
#include "model/transformer.h"
#include "train/checkpoint.h"
#include "train/test_run.h"

namespace plumb {
namespace {

class AdapterRun : public TrainerTest {
 protected:
  AdapterRun() : data(small_text_data(folder)) { save_base(1); }
  void save_base(uint64_t seed) const {
    ModelConfig c = small_config(data);
    c.dropout = 0.1;
    Model::create(c, seed).save(folder / "base");
  }
  Model base() const { return Model::load(folder / "base"); }
  TrainOptions options() const {
    TrainOptions o = small_options();
    o.lora = {.rank = 4, .dropout = 0.2, .dora = true};
    return o;
  }

  Dataset data;
};

TEST_F(AdapterRun, LearnsAndGoesOnBitForBit) {
  Model straight = base();
  const TrainResult result = Trainer(straight, data, options(), folder / "straight").run();
  const auto lines = metrics_of(folder / "straight");
  EXPECT_LT(result.last_loss, lines.front().at("loss").get<double>() - 0.02);
  for (const int64_t stop : {3, 6, 12}) {
    Model model = base();
    Trainer trainer(model, data, options(), folder / "stopped");
    trainer.resume();
    if (stop < 12) {
      error_of(ErrorKind::interrupted, [&] {
        trainer.run({.step = [&](const StepMetrics& m) {
          if (m.step == stop) request_stop();
        }});
      });
      forget_stop();
    } else {
      trainer.run();
      EXPECT_EQ(values_of(model), values_of(straight));
    }
  }
  EXPECT_EQ(metrics_of(folder / "stopped"), lines);
  for (const char* file : {"adapter_model.safetensors", "adapter_config.json"})
    EXPECT_EQ(read_file(folder / "stopped/model/" + file), read_file(folder / "straight/model/" + file));
}

TEST_F(AdapterRun, LeavesTheModelAsItWasAndKeepsTheAdapterAlone) {
  Model model = base();
  Trainer(model, data, options(), folder / "run").run();
  const Model before = base();
  for (const auto& p : before.transformer().parameters().all()) {
    const Tensor after = model.transformer().parameters().find(p->name)->value;
    EXPECT_EQ(std::memcmp(p->value.raw(), after.raw(), after.bytes()), 0) << p->name;
  }
  EXPECT_FALSE(path_exists(folder / "run/model/model.safetensors"));
  const SafetensorsFile checkpoint(checkpoint_path(folder / "run/checkpoints", 12));
  for (const auto& e : checkpoint.entries()) EXPECT_NE(e.name.find(".lora_"), std::string::npos) << e.name;
  EXPECT_EQ(checkpoint.entries().size(), 14u * (3 + 3 + 3 + 1))
      << "values, m and v of A, B and M, and the norm";

  // Another base under the same adapter.
  save_base(2);
  Model wrong = base();
  Trainer trainer(wrong, data, options(), folder / "run");
  EXPECT_NE(error_of(ErrorKind::config, [&] { trainer.resume(); }).find("other weights"), std::string::npos);
}

TEST_F(AdapterRun, OptionsOfAnAdapterNeedItsRank) {
  TrainOptions o = small_options();
  o.lora.dora = true;
  EXPECT_NE(error_of(ErrorKind::usage, [&] { validate(o); }).find("--dora"), std::string::npos);
}

}  // namespace
}  // namespace plumb
