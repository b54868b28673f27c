// Runs the cases of all rules, and what holds for the check as a whole.
#include "plumb/check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "base/random.h"
#include "base/test_support.h"
#include "lab/check_cases.h"
#include "plumb/dataset.h"
#include "plumb/trainer.h"

namespace plumb::check_test {
namespace {

Made sound_model() {
  Made m;
  m.config.vocab_size = 260;
  m.config.width = 32;
  m.config.max_length = 64;
  m.config.decoder_layers = 2;
  m.config.layer.heads = 4;
  m.config.layer.ffn_width = 48;
  m.config.bos_id = 256;
  m.config.eos_ids = {256};
  m.config.pad_id = 257;
  m.config.mask_id = 258;
  m.training.length = 32;
  return m;
}

void patch(const std::string& path, const Json& changes) {
  if (changes.is_null()) return;
  Json j = path_exists(path) ? parse_json_file(path) : Json::object();
  j.merge_patch(changes);
  write_file_atomically(path, dump_json(j));
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto& some :
       {file_cases(), placement_cases(), norm_cases(), weight_cases(), attention_cases(), expert_cases(),
        vocabulary_cases(), precision_cases(), training_cases(), tokenizer_cases()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

std::vector<std::string> codes(const std::vector<CheckFinding>& findings) {
  std::vector<std::string> list;
  list.reserve(findings.size());
  for (const CheckFinding& f : findings) list.push_back(f.code);
  return list;
}

std::string words(const std::vector<CheckFinding>& findings) {
  std::string all;
  for (const CheckFinding& f : findings)
    all += f.code + " " + f.where + ": " + f.found + "; expected " + f.expected + "\n";
  return all;
}

bool names(const std::vector<CheckFinding>& findings, const std::string& code) {
  const auto list = codes(findings);
  return std::find(list.begin(), list.end(), code) != list.end();
}

class CheckRules : public testing::TestWithParam<Case> {};

TEST_P(CheckRules, TripsOnTheFault) {
  const Case& c = GetParam();
  const auto tripped = findings_of(c.trip);
  EXPECT_TRUE(names(tripped, c.code)) << words(tripped);
  for (const CheckFinding& f : tripped) {
    EXPECT_FALSE(f.where.empty() || f.found.empty() || f.expected.empty()) << words({f});
  }
  const auto sound = findings_of(c.sound);
  EXPECT_FALSE(names(sound, c.code)) << words(sound);
}

INSTANTIATE_TEST_SUITE_P(All, CheckRules, testing::ValuesIn(all_cases()), [](const auto& test) {
  return test.param.code + "_" + std::to_string(test.index) + "_" + test.param.name;
});

TEST(Check, EveryRuleHasACase) {
  std::set<std::string> cased;
  for (const Case& c : all_cases()) cased.insert(c.code);
  EXPECT_GE(check_rules().size(), 30u);
  std::string last;
  for (const CheckRule& r : check_rules()) {
    EXPECT_TRUE(cased.contains(r.code)) << r.code;
    EXPECT_LT(last, r.code) << "codes rise";
    last = r.code;
    for (const std::string& text : {r.subject, r.sentence, r.source, r.fix})
      EXPECT_FALSE(text.empty()) << r.code;
    EXPECT_EQ(r.sentence.back(), '.') << r.code;
    EXPECT_EQ(r.sentence.find('|'), std::string::npos) << "it stands in a table";
  }
}

// Trained for seconds, so that its attention is hardly local yet: the loss on a text of its kind tells,
// though it differs by less than what would tell at any spread.
TEST(Check, RotaryStyleOfAModelTrainedForAMoment) {
  const char* words_of_text[] = {"the ", "cat ", "sat ", "on ",   "a ",
                                 "mat ", "and ", "saw ", "dogs ", "run.\n"};
  std::string text;
  for (uint64_t i = 0; text.size() < 20000; ++i)
    text += words_of_text[(text.size() / 3 + random_below({5}, i, 4)) % 10];
  const TempFolder folder;
  write_file_atomically(folder / "t.txt", text);
  const Dataset data = Dataset::text(folder / "t.txt", Tokenizer::bytes(),
                                     {.held_out = 0.05, .cache_folder = folder / "cache"});
  for (const bool interleaved : {false, true}) {
    ModelConfig config = sound_model().config;
    config.vocab_size = data.vocab_size();
    config.layer.heads = 2;
    config.layer.rope.interleaved = interleaved;
    Model model = Model::create(config, 1);
    const std::string run = folder / (interleaved ? "neighbours" : "halves");
    Trainer(model, data, {.steps = 100, .batch = 4, .length = 32, .lr = 3e-3, .eval_every = 0}, run).run();
    const CheckOptions options{.text = text.substr(7000, 600)};
    EXPECT_FALSE(names(check_folder(run + "/model", options), "PL405"));
    patch(run + "/model/config.json", {{"rope_interleaved", !interleaved}});
    EXPECT_TRUE(names(check_folder(run + "/model", options), "PL405"));
  }
}

TEST(Check, NothingIsFoundInASoundModelOfAnyPlacement) {
  for (const char* name : EnumNames<Placement>::names) {
    const auto placed = [&](Made& m) {
      const auto& all = EnumNames<Placement>::names;
      m.config.layer.placement =
          static_cast<Placement>(std::find(all.begin(), all.end(), std::string_view(name)) - all.begin());
      if (m.config.layer.placement == Placement::reordered) m.config.layer.qk_norm = QkNorm::whole;
    };
    EXPECT_EQ(words(findings_of(placed)), "") << name;
    EXPECT_EQ(words(findings_of([&](Made& m) {
                placed(m);
                m.recipe = true;
              })),
              "")
        << name;
  }
}

TEST(Check, ManyFindingsOfOneRuleAreCounted) {
  const auto found = findings_of([](Made& m) {
    m.config.decoder_layers = 12;
    m.weights = [](ParameterTable& t) {
      for (const auto& p : t.all())
        if (p->name.ends_with("norm_in.gain")) fill(t, p->name, 1000);
    };
  });
  const auto list = codes(found);
  EXPECT_EQ(std::count(list.begin(), list.end(), "PL206"), 8) << words(found);
  EXPECT_NE(words(found).find("17 more places"), std::string::npos) << words(found);
}

// As a model that was trained on a task of digits.
TEST(Check, AVocabularyThatCannotSpellTheSampleIsRunOnItsIds) {
  const TempFolder folder;
  const Tokenizer digits = Tokenizer::characters("0123456789");
  Made m = sound_model();
  m.config.vocab_size = digits.vocab_size();
  m.config.bos_id = m.config.pad_id = m.config.mask_id = -1;
  m.config.eos_ids.clear();
  Model model = Model::create(m.config, 1);
  scale(model.transformer().parameters(), "token_embedding", 1e7f);
  model.save(folder.str());
  digits.save(folder.str());
  const auto found = codes(check_folder(folder.str()));
  EXPECT_TRUE(std::count(found.begin(), found.end(), "PL701"));
  EXPECT_NE(error_of(ErrorKind::input, [&] { check_folder(folder.str(), {.text = "abc"}); }).find("spell"),
            std::string::npos);
}

TEST(Check, WhatCannotBeReadIsOneError) {
  const TempFolder folder;
  for (const char* content :
       {"", "{", "[1]", "\xff", "{\"model_type\": \"llama\", \"model_type\": \"llama\"}"}) {
    write_file_atomically(folder / "config.json", content);
    EXPECT_NE(
        error_of(*content == '[' ? ErrorKind::config : ErrorKind::file, [&] { check_folder(folder.str()); })
            .find("config.json"),
        std::string::npos);
  }
  EXPECT_NE(error_of(ErrorKind::file, [&] { check_folder(folder / "absent"); }).find("absent"),
            std::string::npos);
}

// Keys with values that no reader expects, on a sound folder: findings, and never a crash or a hang.
TEST(Check, OddValuesOfAnyKeyAreFindings) {
  const std::vector<Json> odd{nullptr, -1, 0, 1e300, "x", true, Json::array(), Json::object(), INT64_MAX, 7};
  const TempFolder folder;
  Made m = sound_model();
  m.config.vocab_size = 40;
  m.config.bos_id = m.config.pad_id = m.config.mask_id = -1;
  m.config.eos_ids.clear();
  m.config.model_type = "llama";
  m.config.layer = family_default("llama").layer;
  m.config.tied_embeddings = false;
  m.config.init = Init::normal;
  Model::create(m.config, 1).save(folder.str());
  const std::string path = folder / "config.json";
  const Json whole = parse_json_file(path);
  for (const auto& [key, value] : whole.items()) {
    for (const Json& strange : odd) {
      Json changed = whole;
      changed[key] = strange;
      write_file_atomically(path, dump_json(changed));
      for (const CheckFinding& f : check_folder(folder.str())) EXPECT_FALSE(f.found.empty()) << key;
    }
  }
}

}  // namespace

std::vector<CheckFinding> findings_of(const Change& change) {
  Made m = sound_model();
  if (change) change(m);
  if (m.recipe) return check_recipe(m.config, m.training);
  const TempFolder folder;
  const Model model = Model::create(m.config, 1);
  if (m.weights) m.weights(model.transformer().parameters());
  model.save(folder.str(), m.stored);
  if (m.tokenizer) Tokenizer::bytes().save(folder.str());
  patch(folder / "config.json", m.config_patch);
  patch(folder / "generation_config.json", m.generation_patch);
  if (m.files) m.files(folder.str());
  if (m.check_tokenizer) return check_tokenizer(folder.str(), {{"own", m.text}});
  CheckOptions options;
  if (m.trained) options.training = m.training;
  return check_folder(folder.str(), options);
}

Change recipe(const std::function<void(ModelConfig&, TrainOptions&)>& change) {
  return [change](Made& m) {
    m.recipe = true;
    change(m.config, m.training);
  };
}

Change layer(const std::function<void(LayerConfig&)>& change) {
  return recipe([change](ModelConfig& c, TrainOptions&) { change(c.layer); });
}

Change weights(const std::function<void(ParameterTable&)>& change) {
  return [change](Made& m) { m.weights = change; };
}

void fill(ParameterTable& table, const std::string& name, float value) {
  const Tensor& t = table.find(name)->value;
  std::fill_n(t.f32(), t.numel(), value);
}

void scale(ParameterTable& table, const std::string& part, float factor) {
  for (const auto& p : table.all()) {
    if (p->name.find(part) == std::string::npos) continue;
    for (int64_t i = 0; i < p->value.numel(); ++i) p->value.f32()[i] *= factor;
  }
}

}  // namespace plumb::check_test
