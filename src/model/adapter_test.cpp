// Adapters on whole models: which maps they are on, files of PEFT's layout in and out, merged folders.
#include "model/adapter.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/random.h"
#include "base/test_support.h"
#include "model/safetensors.h"
#include "model/small_model.h"
#include "model/transformer.h"
#include "plumb/convert.h"
#include "plumb/error.h"

namespace plumb {
namespace {

const std::vector<int32_t> kIds{3, 1, 4, 1, 5, 9, 2, 6};

Tensor logits_of(const Model& model) {
  Context context;
  const Transformer& t = model.transformer();
  return t.logits(context, t.decode(context, {.ids = Tensor::of<int32_t>({1, 8}, kIds)}));
}

double distance(const Tensor& a, const Tensor& b) {
  double most = 0, size = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a.f32()[i]) - b.f32()[i]));
    size = std::max(size, std::abs(static_cast<double>(b.f32()[i])));
  }
  return most / size;
}

// Biases and gains of a model that are not what they start as, nor alike.
void shake(Model& model) {
  model.make_trainable();
  for (const auto& p : model.transformer().parameters().all()) {
    for (int64_t i = 0; i < p->value.numel() && p->role != Role::statistic; ++i)
      p->value.f32()[i] +=
          static_cast<float>(0.1 * random_normal({3, p->name.size()}, static_cast<uint64_t>(i)));
  }
}

std::string made_base(const TempFolder& folder, ModelConfig config) {
  Model model = Model::create(config, 1);
  shake(model);
  model.save(folder / "base");
  return folder / "base";
}

// With an adapter of values that are not what they start as.
Model adapted(const std::string& base, const AdapterOptions& options) {
  Model model = Model::load(base);
  model.adapt(options, 2);
  for (const auto& p : model.transformer().parameters().all()) {
    for (int64_t i = 0; i < p->value.numel() && p->adapts && p->trainable; ++i)
      p->value.f32()[i] +=
          static_cast<float>(0.3 * random_normal({4, p->name.size()}, static_cast<uint64_t>(i)));
    p->follow();
  }
  return model;
}

struct Family {
  std::string type;
  std::vector<std::string> targets;
};

ModelConfig config_of(const Family& f) {
  ModelConfig c = small(f.type);
  if (f.type == "llama") c.layer.kv_heads = 1;
  return c;
}

class AdapterOfFamily : public testing::TestWithParam<std::tuple<Family, bool>> {};

TEST_P(AdapterOfFamily, SavesLoadsAndMerges) {
  const auto& [of, dora] = GetParam();
  const TempFolder folder;
  const std::string base = made_base(folder, config_of(of));
  const Model plain = Model::load(base);
  AdapterOptions options{.rank = 3, .alpha = 4, .dora = dora, .rslora = !dora, .targets = of.targets};
  Model fresh = Model::load(base);
  fresh.adapt(options, 2);
  EXPECT_LT(distance(logits_of(fresh), logits_of(plain)), 2e-6) << "B starts at 0";

  const Model model = adapted(base, options);
  EXPECT_GT(distance(logits_of(model), logits_of(plain)), 0.05);
  model.save(folder / "adapter");
  EXPECT_EQ(list_files(folder / "adapter").size(), 2u);
  const Model again = Model::load(folder / "adapter");
  EXPECT_EQ(distance(logits_of(again), logits_of(model)), 0);
  EXPECT_EQ(again.parameter_count(), model.parameter_count());

  convert_model(folder / "adapter", folder / "merged", {});
  const Model merged = Model::load(folder / "merged");
  EXPECT_FALSE(merged.adapted());
  EXPECT_LT(distance(logits_of(merged), logits_of(model)), 5e-6);
}

// By the chain rule from the gradient of the merged model's matrices, which the complex-step oracle vouches
// for.
TEST_P(AdapterOfFamily, GradientsAreThoseOfTheMergedMatrices) {
  const auto& [of, dora] = GetParam();
  const TempFolder folder;
  const std::string base = made_base(folder, config_of(of));
  Model model = adapted(base, {.rank = 3, .alpha = 4, .dora = dora, .targets = of.targets});
  model.save(folder / "adapter");
  convert_model(folder / "adapter", folder / "merged", {});
  Model merged = Model::load(folder / "merged");
  const Tensor targets = Tensor::of<int32_t>({8}, {1, 4, 1, 5, 9, 2, 6, 5});
  for (Model* m : {&model, &merged}) {
    m->make_trainable();
    Tape tape;
    Context context{.tape = &tape};
    const Transformer& t = m->transformer();
    t.loss(context, t.decode(context, {.ids = Tensor::of<int32_t>({1, 8}, kIds)}), targets,
           {.scale = 1.0 / 8});
    tape.backward();
  }
  int checked = 0;
  for (const auto& p : model.transformer().parameters().all()) {
    EXPECT_EQ(p->value.grad().defined(), p->adapts && p->trainable) << p->name;
    if (!p->adapter) continue;
    const Adapter& a = *p->adapter;
    const Tensor dw = merged.transformer().parameters().find(p->name)->value.grad();
    const int64_t outputs = a.b->shape[0], inputs = a.a->shape[1];
    const auto at = [&](const Tensor& t, int64_t o, int64_t i) {
      return static_cast<double>(t.f32()[p->in_out ? i * outputs + o : o * inputs + i]);
    };
    double most = 0, size = 0;
    for (int64_t o = 0; o < outputs; ++o) {
      const double by =
          dora ? static_cast<double>(a.magnitude->value.f32()[o]) * a.inverse_norm->value.f32()[o] : 1;
      for (int64_t k = 0; k < 3; ++k) {
        double want = 0;
        for (int64_t i = 0; i < inputs; ++i)
          want += a.scale * by * at(dw, o, i) * a.a->value.f32()[k * inputs + i];
        most = std::max(most, std::abs(want - a.b->value.grad().f32()[o * 3 + k]));
        size = std::max(size, std::abs(want));
      }
    }
    EXPECT_LT(most, 2e-5 * size) << p->name;
    ++checked;
  }
  EXPECT_GT(checked, 1);
}

INSTANTIATE_TEST_SUITE_P(
    Families, AdapterOfFamily,
    testing::Combine(testing::Values(Family{"llama", {}}, Family{"gpt2", {"c_attn", "mlp.c_proj"}},
                                     Family{"bloom", {"all-linear"}},
                                     Family{"qwen2_moe", {R"(.*\.(q_proj|shared_expert\.\w+))"}}),
                     testing::Bool()),
    [](const auto& given) {
      return std::get<0>(given.param).type + (std::get<1>(given.param) ? "_dora" : "_rslora");
    });

class AdapterFiles : public testing::Test {
 protected:
  AdapterFiles() : base_(made_base(folder_, small("llama"))) {
    adapted(base_, {.rank = 2, .targets = {"q_proj", "layers.1.mlp.down_proj"}}).save(adapter_);
  }
  nlohmann::json config() const {
    return nlohmann::json::parse(read_file(adapter_ + "/adapter_config.json"));
  }
  void expect_refused(ErrorKind kind, const std::string& reason) const {
    const std::string message = error_of(kind, [&] { Model::load(adapter_); });
    EXPECT_NE(message.find(reason), std::string::npos) << message;
  }
  void expect_config_refused(const char* key, const nlohmann::json& value, ErrorKind kind,
                             const std::string& reason) {
    const nlohmann::json before = config();
    nlohmann::json changed = before;
    changed[key] = value;
    write_file_atomically(adapter_ + "/adapter_config.json", changed.dump());
    expect_refused(kind, reason);
    write_file_atomically(adapter_ + "/adapter_config.json", before.dump());
  }
  // The tensors of the file through `change`.
  template <class Change>
  void rewrite(const Change& change) const {
    std::vector<SavedTensor> tensors;
    {
      const SafetensorsFile file(adapter_ + "/adapter_model.safetensors");
      for (const auto& e : file.entries()) tensors.push_back({e.name, owned_f32(file.tensor(e))});
    }
    change(tensors);
    write_safetensors(adapter_ + "/adapter_model.safetensors", tensors);
  }

  TempFolder folder_;
  std::string base_, adapter_ = folder_ / "adapter";
};

TEST_F(AdapterFiles, AreThoseOfPeft) {
  const nlohmann::json j = config();
  EXPECT_EQ(j.at("peft_type"), "LORA");
  EXPECT_EQ(j.at("r"), 2);
  EXPECT_EQ(j.at("lora_alpha"), 2);
  EXPECT_EQ(j.at("target_modules"), nlohmann::json({"q_proj", "layers.1.mlp.down_proj"}));
  EXPECT_EQ(j.at("base_model_name_or_path"), absolute_path(base_));
  const SafetensorsFile file(adapter_ + "/adapter_model.safetensors");
  EXPECT_EQ(file.entries().size(), 6u);
  EXPECT_EQ(file.find("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight")->shape,
            Shape({2, 8}));
  EXPECT_TRUE(file.find("base_model.model.model.layers.1.mlp.down_proj.lora_B.weight"));
}

TEST_F(AdapterFiles, OfAnotherKindAreRefusedByName) {
  expect_config_refused("peft_type", "IA3", ErrorKind::unsupported, "\"peft_type\" is \"IA3\"");
  expect_config_refused("bias", "all", ErrorKind::unsupported, "\"bias\" is \"all\"");
  expect_config_refused("rank_pattern", {{"q_proj", 4}}, ErrorKind::unsupported, "\"rank_pattern\"");
  expect_config_refused("modules_to_save", {"lm_head"}, ErrorKind::unsupported, "\"modules_to_save\"");
  expect_config_refused("init_lora_weights", "pissa", ErrorKind::unsupported, "\"init_lora_weights\"");
  expect_config_refused("target_modules", {"embed_tokens"}, ErrorKind::usage, "\"embed_tokens\"");
  expect_config_refused("target_modules", {"q_proj", "down_proj"}, ErrorKind::file,
                        "lacks tensor \"base_model.model.model.layers.0.mlp.down_proj.lora_A.weight\" (2, ");
  expect_config_refused("r", 0, ErrorKind::config, "r is 0");
  expect_config_refused("r", 3, ErrorKind::file, "has the shape (2, 8), but by adapter_config.json");
  expect_config_refused("base_model_name_or_path", "someone/model", ErrorKind::file, "--base names");
  EXPECT_NO_THROW(Model::load(adapter_));
}

TEST_F(AdapterFiles, WithOtherTensorsAreRefusedByName) {
  const auto rename = [&](size_t i, const std::string& name, const std::string& reason) {
    std::string before;
    rewrite([&](auto& tensors) { before = std::exchange(tensors[i].name, name); });
    expect_refused(ErrorKind::file, reason);
    rewrite([&](auto& tensors) {
      for (auto& t : tensors) t.name = t.name == name ? before : t.name;
    });
  };
  rename(0, "base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight",
         "k_proj.lora_A.weight\" belongs to no");
  rename(0, "model.layers.0.self_attn.q_proj.lora_A.weight", "does not begin with \"base_model.model.\"");
  rename(0, "base_model.model.layers.1.self_attn.q_proj.lora_A.weight", "is there twice");
  EXPECT_NO_THROW(Model::load(adapter_));
}

TEST_F(AdapterFiles, TargetsThatAreNoLinearMapAreRefused) {
  Model model = Model::load(base_);
  for (const std::string target : {"q_prj", "lm_head", "input_layernorm", ".*nothing"}) {
    const std::string message =
        error_of(ErrorKind::usage, [&] { model.adapt({.rank = 2, .targets = {target}}, 1); });
    EXPECT_NE(message.find("\"" + target + "\""), std::string::npos) << message;
  }
  EXPECT_FALSE(model.adapted());
  model.adapt({.rank = 2}, 1);
  error_of(ErrorKind::usage, [&] { model.adapt({.rank = 2}, 1); });
  Model created = Model::create(small("llama"), 1);
  EXPECT_NE(error_of(ErrorKind::usage, [&] { created.adapt({.rank = 2}, 1); }).find("--from"),
            std::string::npos);
}

TEST_F(AdapterFiles, FreezingLeavesTheBaseFrozen) {
  Model model = Model::load(adapter_);
  model.make_trainable();
  model.freeze([](const std::string& name) { return name.starts_with("decoder.0."); });
  for (const auto& p : model.transformer().parameters().all())
    EXPECT_EQ(p->trainable, p->adapts && p->name.starts_with("decoder.1.")) << p->name;
}

}  // namespace
}  // namespace plumb
