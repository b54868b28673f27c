#include "plumb/model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/test_support.h"
#include "model/generation_defaults.h"
#include "model/model_folder.h"
#include "model/safetensors.h"
#include "model/small_model.h"
#include "model/torch_archive.h"
#include "model/transformer.h"
#include "tensor/memory.h"

namespace plumb {
namespace {

class ModelFolder : public testing::Test {
 protected:
  std::string folder() const { return folder_ / "model"; }
  std::string file(const std::string& name) const { return folder() + "/" + name; }
  std::string weights() const { return file("model.safetensors"); }

  // The weights on disk, to be written back otherwise.
  std::vector<SavedTensor> tensors() const {
    const SafetensorsFile saved(weights());
    std::vector<SavedTensor> list;
    for (const auto& e : saved.entries()) list.push_back({e.name, saved.tensor(e).clone(), e.dtype});
    return list;
  }
  static SavedTensor& named(std::vector<SavedTensor>& list, const std::string& name) {
    for (SavedTensor& t : list) {
      if (t.name == name) return t;
    }
    throw std::runtime_error(name);
  }

  void expect_refused(const std::string& reason) const {
    try {
      Model::load(folder());
      ADD_FAILURE() << "accepted; expected: " << reason;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }

  TempFolder folder_;
};

void expect_same_values(const Model& got, const Model& want) {
  const auto& a = got.transformer().parameters().all();
  const auto& b = want.transformer().parameters().all();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i]->name, b[i]->name);
    ASSERT_EQ(a[i]->value.bytes(), b[i]->value.bytes()) << a[i]->name;
    EXPECT_EQ(std::memcmp(a[i]->value.raw(), b[i]->value.raw(), a[i]->value.bytes()), 0) << a[i]->name;
  }
}

TEST_F(ModelFolder, SavedAndLoadedIsTheSame) {
  for (const std::string& type : family_names()) {
    const Model model = Model::create(small(type), 7);
    model.save(folder());
    const Model again = Model::load(folder());
    expect_same_values(again, model);
    EXPECT_EQ(again.config().model_type, type);
    EXPECT_EQ(again.parameter_count(), model.parameter_count());
    EXPECT_EQ(again.generation(), model.generation());
  }
}

TEST_F(ModelFolder, ModelsThatNoFamilyDescribes) {
  ModelConfig c = small("plumbline");
  c.layer.placement = Placement::sandwich;
  c.layer.norm = NormKind::dyt;
  c.layer.experts = 3;
  c.layer.qk_norm = QkNorm::per_head;
  c.decoder_runs = {{.first = 1, .count = 1, .layer = c.layer}};
  c.decoder_runs[0].layer.experts = 0;
  c.decoder_runs[0].layer.norm = NormKind::batch_norm;
  const Model model = Model::create(c, 3);
  model.save(folder());
  const Model again = Model::load(folder());
  EXPECT_EQ(again.config(), c);
  expect_same_values(again, model);
  ModelConfig wrong = c;
  wrong.model_type = "llama";
  EXPECT_THROW(Model::create(wrong, 1), Error) << "before it is trained, not when it is saved";
}

Tensor logits_of(const Model& model, Context context = {}) {
  const Tensor ids = Tensor::of<int32_t>({1, 6}, {3, 1, 4, 1, 5, 9});
  const Transformer& t = model.transformer();
  return t.logits(context, t.decode(context, {.ids = ids})).without_grad();
}

void expect_same_bits(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  EXPECT_EQ(std::memcmp(got.raw(), want.raw(), want.bytes()), 0);
}

// gamma starts at the spectral norm, so the model is the one without it, to the bit; decaying leaves it
// alone; and what the folder keeps is all that the model is.
TEST_F(ModelFolder, SigmaReparamStartsAsTheModelWithoutItAndIsSavedWhole) {
  for (const bool fused : {false, true}) {
    ModelConfig c = small("plumbline");
    c.layer.qkv_fused = c.linear_in_out = fused;
    const Model bare = Model::create(c, 3);
    c.layer.reparam = Reparam::sigma;
    const Model model = Model::create(c, 3);
    expect_same_bits(logits_of(model), logits_of(bare));
    const ParameterTable& table = model.transformer().parameters();
    const Parameter& gamma =
        *table.find(fused ? "decoder.0.attention.qkv.gamma" : "decoder.0.attention.value.gamma");
    EXPECT_EQ(gamma.shape, Shape({fused ? 3 : 1}));
    EXPECT_FALSE(gamma.decays());
    EXPECT_FALSE(table.find("decoder.1.feed_forward.down.singular")->trainable);
    EXPECT_EQ(table.find("decoder.0.feed_forward.up.gamma")->init_words(), "sigma(W)");

    for (const auto& p : table.all()) {
      if (p->gamma) p->gamma->value.f32()[0] *= 1.5f;
    }
    const Tensor after = logits_of(model);
    EXPECT_NE(std::memcmp(after.raw(), logits_of(bare).raw(), after.bytes()), 0);
    Tape tape;
    expect_same_bits(logits_of(model, {.tape = &tape, .training = true}), after);  // a pass changes nothing
    model.save(folder());
    const Model again = Model::load(folder());
    expect_same_values(again, model);
    expect_same_bits(logits_of(again), after);
  }
}

TEST(SigmaReparam, IsRefusedWhereMatricesStartAtZero) {
  ModelConfig c = small("plumbline");
  c.layer.reparam = Reparam::sigma;
  c.layer.placement = Placement::fixup;
  EXPECT_NE(error_of(ErrorKind::config, [&] { validate(c); }).find("fixup"), std::string::npos);
}

TEST_F(ModelFolder, NgptIsSavedWhole) {
  ModelConfig c = small("plumbline");
  c.layer.placement = Placement::ngpt;
  const Model model = Model::create(c, 3);
  model.save(folder());
  const Model again = Model::load(folder());
  EXPECT_EQ(again.config(), c);
  expect_same_values(again, model);
  expect_same_bits(logits_of(again), logits_of(model));
  const ParameterTable& table = model.transformer().parameters();
  EXPECT_EQ(table.find("decoder.0.attention.query.weight")->unit, UnitLength::of_outputs);
  EXPECT_EQ(table.find("decoder.0.feed_forward.down.weight")->unit, UnitLength::of_inputs);
  c.decoder_runs = {{.first = 1, .count = 1, .layer = {}}};
  EXPECT_NE(error_of(ErrorKind::config, [&] { validate(c); }).find("ngpt"), std::string::npos);
  c.decoder_runs.clear();
  c.layer.norm_out = false;
  EXPECT_NE(error_of(ErrorKind::config, [&] { validate(c); }).find("norm_out"), std::string::npos);
}

// Held in 16 bits the map is that of the rounded matrix.
TEST_F(ModelFolder, SigmaReparamOfMatricesHeldInBf16) {
  ModelConfig c = small("plumbline");
  c.layer.reparam = Reparam::sigma;
  Model model = Model::create(c, 3);
  const Tensor exact = logits_of(model);
  model.hold_as(StoredType::bf16);
  const Tensor held = logits_of(model);
  double worst = 0;
  for (int64_t i = 0; i < exact.numel(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(held.f32()[i]) - exact.f32()[i]));
  EXPECT_LT(worst, 0.02);
  EXPECT_GT(worst, 0);
}

TEST_F(ModelFolder, SixteenBitWeightsStayAsStoredUntilTheyTrain) {
  const Model model = Model::create(small("llama"), 5);
  for (const auto& [type, dtype] :
       {std::pair(StoredType::f16, DType::f16), {StoredType::bf16, DType::bf16}}) {
    model.save(folder(), type);
    Model again = Model::load(folder());
    ParameterTable& table = again.transformer().parameters();
    const Parameter* matrix = table.find("decoder.0.attention.query.weight");
    EXPECT_EQ(matrix->value.dtype(), dtype);
    EXPECT_EQ(table.find("token_embedding.weight")->value.dtype(), dtype);
    EXPECT_EQ(table.find("decoder.0.attention.norm_in.gain")->value.dtype(), DType::f32);
    EXPECT_FALSE(matrix->value.requires_grad());
    const Tensor stored = matrix->value;
    again.make_trainable();
    EXPECT_TRUE(matrix->value.requires_grad());
    const Tensor wide = owned_f32(stored);
    EXPECT_EQ(std::memcmp(matrix->value.f32(), wide.f32(), wide.bytes()), 0);
    matrix->value.f32()[0] += 1;  // its own memory
    again.make_trainable();
    EXPECT_EQ(matrix->value.f32()[0], wide.f32()[0] + 1) << "the second time it does nothing";
  }
}

TEST_F(ModelFolder, WeightsAreMappedNotCopied) {
  ModelConfig c = small("llama");
  c.width = 256;
  c.vocab_size = 2000;
  Model::create(c, 5).save(folder());
  release_cached_memory();
  const size_t before = live_memory();
  const Model again = Model::load(folder());
  const size_t tables = 2 * 4 * 16 * 64;
  EXPECT_LT(live_memory() - before, tables + 64 * 1024) << "of " << again.parameter_count() * 4;
}

TEST_F(ModelFolder, AFailedSaveLeavesTheOldModel) {
  const Model model = Model::create(small("gpt2"), 1);
  model.save(folder());
  Model changed = Model::create(small("gpt2"), 2);
  changed.transformer().parameters().find("decoder.0.feed_forward.up.weight")->value.f32()[0] = 1e6f;
  EXPECT_THROW(changed.save(folder(), StoredType::f16), Error);
  expect_same_values(Model::load(folder()), model);
}

TEST_F(ModelFolder, TensorsThatDoNotFitAreNamed) {
  Model::create(small("gpt2"), 1).save(folder());
  const std::vector<SavedTensor> good = tensors();
  const std::string qkv = "transformer.h.1.attn.c_attn.weight";
  const auto without = [&](const std::string& name) {
    std::vector<SavedTensor> list = good;
    std::erase_if(list, [&](const SavedTensor& t) { return t.name == name; });
    return list;
  };
  write_safetensors(weights(), without(qkv));
  expect_refused("lack tensor \"" + qkv + "\" (8, 24)");
  write_safetensors(weights(), without("transformer.ln_f.weight"));
  expect_refused("lack tensor \"transformer.ln_f.weight\"");  // never an all-ones default

  std::vector<SavedTensor> list = good;
  list.push_back({"transformer.h.2.ln_1.weight", Tensor::zeros({8}), DType::f32});
  write_safetensors(weights(), list);
  expect_refused("tensor \"transformer.h.2.ln_1.weight\" (8) has no place in the gpt2 model");

  list = good;
  named(list, qkv).value = named(list, qkv).value.reshape({24, 8});
  write_safetensors(weights(), list);
  expect_refused("\"" + qkv + "\" has the shape (24, 8), but by config.json it is (8, 24)");

  list = good;
  list.push_back({"h.1.mlp.down_proj_blocks", Tensor::zeros({2, 3}, DType::u8), DType::u8});
  write_safetensors(weights(), list);
  expect_refused("tensor \"h.1.mlp.down_proj_blocks\" is part of a matrix in MXFP4");

  list = good;
  list.push_back({"h.1.attn.c_attn.weight", named(list, qkv).value, DType::f32});
  write_safetensors(weights(), list);
  expect_refused("is there twice");

  list = good;
  named(list, qkv) = {qkv, Tensor::zeros({8, 24}, DType::i32), DType::i32};
  write_safetensors(weights(), list);
  expect_refused("is stored as i32");

  list = good;
  list.push_back({"lm_head.weight", named(list, "transformer.wte.weight").value.clone(), DType::f32});
  list.push_back({"transformer.h.0.attn.bias", Tensor::zeros({1, 1, 16, 16}, DType::u8), DType::u8});
  write_safetensors(weights(), list);
  EXPECT_NO_THROW(Model::load(folder()));
  list[list.size() - 2].value.f32()[3] += 1;
  write_safetensors(weights(), list);
  expect_refused("\"lm_head.weight\" differs from \"transformer.wte.weight\"");
}

TEST_F(ModelFolder, B11_AFinalNormThatTheGraphDoesNotUse) {
  ModelConfig c = small("plumbline");
  c.final_norm = true;
  Model::create(c, 1).save(folder());
  std::ifstream in(file("config.json"));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const size_t at = text.find("\"final_norm\": true");
  ASSERT_NE(at, std::string::npos);
  std::ofstream(file("config.json")) << text.replace(at, 18, "\"final_norm\": false");
  expect_refused("\"decoder.final_norm.gain\" (8) has no place");
}

TEST_F(ModelFolder, B17_BothNamesOfOneNorm) {
  Model::create(small("bert"), 1).save(folder());
  std::vector<SavedTensor> list = tensors();
  SavedTensor& gain = named(list, "bert.embeddings.LayerNorm.weight");
  const std::string before = gain.name;
  gain.name = "bert.embeddings.LayerNorm.gamma";
  write_safetensors(weights(), list);
  EXPECT_NO_THROW(Model::load(folder()));
  list.push_back({before, gain.value, DType::f32});
  write_safetensors(weights(), list);
  expect_refused("is there twice");
}

// With tied embeddings one bias has two names; without, the reference's logits read the decoder's own.
TEST_F(ModelFolder, AnUntiedBertReadsTheBiasOfItsDecoder) {
  const std::string usual = "cls.predictions.bias", own = "cls.predictions.decoder.bias";
  ModelConfig c = small("bert");
  c.tied_embeddings = false;
  Model::create(c, 1).save(folder());
  std::vector<SavedTensor> list = tensors();
  named(list, usual).value.f32()[3] = 1;
  named(list, own).value.f32()[3] = 2;
  const auto bias = [&] {
    write_safetensors(weights(), list);
    return Model::load(folder()).transformer().parameters().find("head.bias")->value.f32()[3];
  };
  EXPECT_EQ(bias(), 2);
  std::erase_if(list, [&](const SavedTensor& t) { return t.name == own; });
  EXPECT_EQ(bias(), 1);
  std::erase_if(list, [&](const SavedTensor& t) { return t.name == usual; });
  EXPECT_THROW(bias(), Error);
}

TEST_F(ModelFolder, B64_SquareMatricesAreNotTransposed) {
  ModelConfig c = small("gpt2");
  c.width = 4;
  c.layer.heads = 1;
  c.decoder_layers = 1;
  Model::create(c, 1).save(folder());
  std::vector<SavedTensor> list = tensors();
  SavedTensor& projection = named(list, "transformer.h.0.attn.c_proj.weight");  // (in, out): y = x W
  std::fill_n(projection.value.f32(), 16, 0.0f);
  projection.value.f32()[1] = 1;
  write_safetensors(weights(), list);
  const Model model = Model::load(folder());
  const Parameter* w = model.transformer().parameters().find("decoder.0.attention.output.weight");
  Context context;
  const Tensor x = Tensor::of<float>({1, 4}, {1, 0, 0, 0});
  const Tensor y = ops::linear(context, x, {w->value, {}, w->in_out});
  EXPECT_EQ(std::vector<float>(y.f32(), y.f32() + 4), (std::vector<float>{0, 1, 0, 0}));
}

TEST_F(ModelFolder, B09_ZeroCentredGainsStaySo) {
  ModelConfig c = small("plumbline");
  c.layer.norm_unit_offset = true;
  c.width = 4;
  const Model model = Model::create(c, 1);
  const char* name = "decoder.final_norm.gain";
  const std::vector<float> stored{0, 0.5f, -0.25f, 15.8125f};
  std::copy(stored.begin(), stored.end(), model.transformer().parameters().find(name)->value.f32());
  model.save(folder(), StoredType::bf16);
  Model::load(folder()).save(folder());  // and back again
  const Model again = Model::load(folder());
  const Tensor gain = again.transformer().parameters().find(name)->value;
  EXPECT_EQ(std::vector<float>(gain.f32(), gain.f32() + 4), stored);
  Context context;
  const Tensor x = Tensor::of<float>({1, 4}, {1, -1, 1, -1});
  const Tensor y =
      ops::norm(context, x, {.kind = NormKind::rms_norm, .eps = 1e-12, .unit_offset = true, .gain = gain});
  EXPECT_EQ(std::vector<float>(y.f32(), y.f32() + 4), (std::vector<float>{1, -1.5f, 0.75f, -16.8125f}));
}

TEST_F(ModelFolder, Shards) {
  const Model model = Model::create(small("llama"), 4);
  model.save(folder());
  std::vector<SavedTensor> all = tensors();
  std::filesystem::remove(weights());
  expect_refused("holds neither model.safetensors nor");
  const size_t half = all.size() / 2;
  write_safetensors(file("model-00001-of-00002.safetensors"), {all.begin(), all.begin() + half});
  write_safetensors(file("model-00002-of-00002.safetensors"), {all.begin() + half, all.end()});
  const auto index = [&](const std::string& second, size_t moved) {
    std::string map;
    for (size_t i = 0; i < all.size(); ++i) {
      const bool first = i < half && i != moved;
      map += (i ? "," : "") + ("\"" + all[i].name + "\":\"") +
             (first ? "model-00001-of-00002.safetensors" : second) + "\"";
    }
    std::ofstream(file("model.safetensors.index.json"))
        << "{\"metadata\":{\"total_size\":1},\"weight_map\":{" << map << "}}";
  };
  index("model-00002-of-00002.safetensors", all.size());
  expect_same_values(Model::load(folder()), model);
  index("model-00002-of-00002.safetensors", 0);
  expect_refused("lacks the tensor \"" + all[0].name + "\"");
  index("../model-00002-of-00002.safetensors", all.size());
  expect_refused("is not a file of this folder");
  index("absent.safetensors", all.size());
  expect_refused("absent.safetensors");
  std::ofstream(file("model.safetensors.index.json")) << "{}";
  expect_refused("weight_map is not an object");
}

TEST_F(ModelFolder, SavesShardsAboveASize) {
  const Model model = Model::create(small("llama"), 4);
  const auto save = [&](const Model& m, uint64_t shard_bytes) {
    write_folder(folder(),
                 {.config = m.config(), .table = m.transformer().parameters(), .generation = m.generation()},
                 {.shard_bytes = shard_bytes});
  };
  const auto names = [&] {
    std::vector<std::string> found;
    for (const std::string& name : list_folder(folder())) {
      if (name.starts_with("model")) found.push_back(name);
    }
    return found;
  };
  model.save(folder());
  const uint64_t whole = std::filesystem::file_size(weights());
  EXPECT_EQ(names(), (std::vector<std::string>{"model.safetensors"}));
  save(Model::load(folder()), whole / 2);  // over the file that is mapped
  const auto shards = names();
  ASSERT_GE(shards.size(), 3u);
  EXPECT_EQ(shards.back(), "model.safetensors.index.json");
  EXPECT_EQ(shards[0], fmt::format("model-00001-of-{:05}.safetensors", shards.size() - 1));
  for (size_t i = 0; i + 1 < shards.size(); ++i)
    EXPECT_LT(std::filesystem::file_size(file(shards[i])), whole / 2 + 4096);
  expect_same_values(Model::load(folder()), model);
  save(model, 1);  // each tensor its own file
  EXPECT_EQ(names().size(), model.parameters().size() + 1);
  expect_same_values(Model::load(folder()), model);
  model.save(folder());
  EXPECT_EQ(names(), (std::vector<std::string>{"model.safetensors"}));
}

TEST_F(ModelFolder, FilesOfPyTorch) {
  const Model model = Model::create(small("gpt2"), 4);
  model.save(folder());
  std::vector<std::pair<std::string, std::string>> members, tensors_of[2];
  members.emplace_back("m/data.pkl", "");
  for (const SavedTensor& t : tensors()) {
    const std::string key = std::to_string(members.size());
    members.emplace_back("m/data/" + key,
                         std::string(static_cast<const char*>(t.value.raw()), t.value.bytes()));
    pickled::View view{"FloatStorage", key, static_cast<int32_t>(t.value.numel()), 0, {}, {}};
    int32_t stride = view.numel;
    for (const int64_t dim : t.value.shape().dims()) {
      view.shape.push_back(static_cast<int32_t>(dim));
      view.strides.push_back(stride /= static_cast<int32_t>(dim));
    }
    tensors_of[members.size() % 2].emplace_back(t.name, pickled::tensor(view));
  }
  const auto write = [&](const char* name, const std::vector<std::pair<std::string, std::string>>& list) {
    members[0].second = pickled::dict(list);
    std::ofstream(file(name), std::ios::binary) << zip_of(members);
  };
  std::filesystem::remove(weights());
  write("a.bin", tensors_of[0]);
  write("b.bin", tensors_of[1]);
  Json index;
  for (const auto& [name, value] : tensors_of[0]) index["weight_map"][name] = "a.bin";
  for (const auto& [name, value] : tensors_of[1]) index["weight_map"][name] = "b.bin";
  std::ofstream(file("pytorch_model.bin.index.json")) << dump_json(index);
  expect_same_values(Model::load(folder()), model);
  tensors_of[0].insert(tensors_of[0].end(), tensors_of[1].begin(), tensors_of[1].end());
  write("pytorch_model.bin", tensors_of[0]);
  expect_same_values(Model::load(folder()), model);
  tensors_of[0].pop_back();
  write("pytorch_model.bin", tensors_of[0]);
  expect_refused("the weights lack tensor");
}

// DeepSeek-V3 is published with a layer that predicts the token after next, which its own code passes over.
TEST_F(ModelFolder, ALayerThatPredictsAheadIsPassedOver) {
  const Model model = Model::create(small("deepseek_v3"), 4);
  model.save(folder());
  std::vector<SavedTensor> list = tensors();
  const std::string ahead = fmt::format("model.layers.{}.", model.config().decoder_layers);
  list.push_back({ahead + "input_layernorm.weight", Tensor::zeros({3}), DType::f32});
  write_safetensors(weights(), list);
  expect_refused("\"" + ahead +
                 "input_layernorm.weight\" (3) has no place");  // one layer too few in config.json
  list.push_back({ahead + "eh_proj.weight", Tensor::zeros({3, 6}), DType::f32});
  write_safetensors(weights(), list);
  expect_same_values(Model::load(folder()), model);
  list.push_back({fmt::format("model.layers.{}.eh_proj.weight", model.config().decoder_layers + 1),
                  Tensor::zeros({3, 6}), DType::f32});
  write_safetensors(weights(), list);
  expect_refused("has no place");
  Model::create(small("llama"), 4).save(folder());
  list = tensors();
  list.push_back({"model.layers.2.eh_proj.weight", Tensor::zeros({3, 6}), DType::f32});
  write_safetensors(weights(), list);
  expect_refused("has no place");
}

TEST_F(ModelFolder, HeadsOverClassesAreSavedUnderTheirClassesNames) {
  ModelConfig c = small("llama");
  c.head = Head::sequence_classification;
  c.labels = {"no", "yes", "maybe"};
  c.problem = Problem::multi_label;
  const Model model = Model::create(c, 3);
  model.save(folder());
  const Json written = Json::parse(read_file(file("config.json")));
  EXPECT_EQ(written.at("architectures"), Json({"LlamaForSequenceClassification"}));
  EXPECT_EQ(written.at("id2label"), Json({{"0", "no"}, {"1", "yes"}, {"2", "maybe"}}));
  EXPECT_EQ(written.at("label2id").at("maybe"), 2);
  EXPECT_EQ(written.at("problem_type"), "multi_label_classification");
  std::vector<SavedTensor> list = tensors();
  EXPECT_EQ(named(list, "score.weight").value.shape(), Shape({3, 8}));
  const Model again = Model::load(folder());
  EXPECT_EQ(again.config().labels, c.labels);
  expect_same_values(again, model);
  list.push_back({"lm_head.weight", Tensor::zeros({11, 8}), DType::f32});
  write_safetensors(weights(), list);
  expect_refused("\"lm_head.weight\" (11, 8) has no place");
  c.head = Head::question_answering;  // whose base model goes by another name
  c.labels.clear();
  c.problem = Problem::by_targets;
  c.head_bias = true;
  const Model answers = Model::create(c, 3);
  answers.save(folder());
  list = tensors();
  EXPECT_EQ(named(list, "transformer.norm.weight").value.shape(), Shape({8}));
  EXPECT_EQ(named(list, "qa_outputs.bias").value.shape(), Shape({2}));
  expect_same_values(Model::load(folder()), answers);
  c = small("olmoe");
  c.head = Head::sequence_classification;
  c.labels = {"no", "yes"};
  EXPECT_THROW(Model::create(c, 1), Error) << "the reference has no such class";
}

TEST_F(ModelFolder, WhatIsMissingOrBrokenIsNamed) {
  expect_refused("is not a folder");
  std::filesystem::create_directories(folder());
  expect_refused("config.json");
  std::ofstream(file("config.json")) << "";
  expect_refused("config.json");
  Model::create(small("llama"), 4).save(folder());
  std::filesystem::resize_file(weights(), std::filesystem::file_size(weights()) - 1);
  expect_refused("cut short");
  Model::create(small("llama"), 4).save(folder());
  std::ofstream(file("generation_config.json")) << R"({"eos_token_id":"two"})";
  expect_refused("generation_config.json: eos_token_id is \"two\"");
}

TEST(Freeze, NamesThatMatchDoNotTrain) {
  Model model = Model::create(small("llama"), 1);
  const int64_t all = model.parameter_count();
  model.freeze([](const std::string& name) { return name.find("embedding") != name.npos; });
  EXPECT_EQ(model.parameter_count(), all - 11 * 8);
  for (const auto& p : model.transformer().parameters().all()) {
    EXPECT_EQ(p->value.requires_grad(), p->name != "token_embedding.weight") << p->name;
  }
  EXPECT_EQ(model_cost(model.config(), 4).parameters, all) << "what it costs to run does not change";
  model.freeze([](const std::string&) { return false; });
  EXPECT_EQ(model.parameter_count(), all);
}

}  // namespace
}  // namespace plumb
