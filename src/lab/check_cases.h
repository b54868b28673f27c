// The cases of the rules of `plumb check`: for each a made model or recipe that trips it and a sound one.
// check_test.cpp runs them; check_<subject>_test.cpp list them.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "plumb/check.h"
#include "plumb/model.h"
#include "plumb/tokenizer.h"

namespace plumb::check_test {

struct Made {
  ModelConfig config;  // of a small sound decoder
  TrainOptions training;
  bool recipe = false;                           // only config and training, no folder
  bool trained = false;                          // a folder of which the training is known
  std::function<void(ParameterTable&)> weights;  // changes them before they are saved
  StoredType stored = StoredType::f32;
  bool check_tokenizer = false;                          // and nothing else of the folder ...
  std::string text;                                      // ... with this text
  bool tokenizer = false;                                // bytes, as `plumb train` saves it
  nlohmann::json config_patch, generation_patch;         // merged into the files
  std::function<void(const std::string& folder)> files;  // changes them after all else
};

using Change = std::function<void(Made&)>;

struct Case {
  std::string code, name;
  Change trip, sound;  // sound: none is the made model as it is
};
inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.code << " " << c.name;
}

std::vector<Case> file_cases();
std::vector<Case> placement_cases();
std::vector<Case> norm_cases();
std::vector<Case> weight_cases();
std::vector<Case> attention_cases();
std::vector<Case> expert_cases();
std::vector<Case> vocabulary_cases();
std::vector<Case> precision_cases();
std::vector<Case> training_cases();
std::vector<Case> tokenizer_cases();

std::vector<CheckFinding> findings_of(const Change& change);

// For changes.
Change recipe(const std::function<void(ModelConfig&, TrainOptions&)>& change);
Change layer(const std::function<void(LayerConfig&)>& change);  // of a recipe
Change weights(const std::function<void(ParameterTable&)>& change);
void fill(ParameterTable& table, const std::string& name, float value);
void scale(ParameterTable& table, const std::string& part, float factor);  // of names that hold the part

}  // namespace plumb::check_test
