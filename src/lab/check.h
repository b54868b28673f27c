// What the rules of `plumb check` are made of. A rule is a line of a table (check_<subject>.cpp) with a
// function that looks at the subject and adds what it finds; check.cpp runs them all.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/reduce.h"
#include "lab/check_pass.h"
#include "lab/trace_pass.h"
#include "model/json_fields.h"
#include "model/transformer.h"
#include "nn/depth.h"
#include "plumb/check.h"
#include "plumb/model.h"
#include "plumb/tokenizer.h"

namespace plumb {

// A float tensor of the weight files.
struct CheckTensor {
  std::string name;                      // in the file
  const Parameter* parameter = nullptr;  // of the config's table; null where nothing there has this name
  bool copy = false;                     // may repeat a tied parameter
  Role role = Role::matrix;              // the parameter's, else guessed from name and rank
  Tensor value;                          // as stored; of a parameter, in its layout
  Shape stored_shape;                    // of the file's tensor
  Moments moments;
  double low = 0, high = 0;  // of the finite values
  int64_t saturated = 0;     // values that are f16's largest, 65504, or its infinities
  uint64_t hash = 0;         // of the bytes

  double std() const;
  bool constant() const { return low == high && moments.not_finite == 0; }
  Tensor f32() const;  // the values, widened where they are narrower
};

struct CheckSubject {
  std::string folder;  // "" of a recipe
  JsonFields json, generation, tokenizer_config;
  // As config.json or the recipe says, also where it cannot be; absent where not even that much can be read.
  std::optional<ModelConfig> config;
  bool valid = false;             // validate() accepts it
  std::set<std::string> unread;   // reasons why weight files could not be read
  std::vector<std::string> lost;  // why the tokenizer could not be read
  std::string load_error;         // of Model::load, "" if it worked
  bool unsupported = false;       // the model is fine as far as plumb knows, but plumb cannot run it
  std::optional<TrainOptions> training;
  std::optional<Tokenizer> tokenizer;
  std::unique_ptr<Transformer> table;           // of a valid config, without values
  std::vector<CheckTensor> tensors;             // by name
  std::optional<Model> model;                   // if it loads
  CheckPass pass;                               // of the loaded model over the sample text
  std::vector<TokenizerSample> samples, texts;  // for the rules of a tokenizer: built-in, given

  bool recipe() const { return folder.empty(); }
  std::string model_type() const;
  // Every gain, bias, gate and statistic is exactly where it starts.
  bool untrained() const;
  const CheckTensor* find(const std::string& parameter) const;  // by plumb's name; null if the files lack it
};

// Takes a config that need not be valid, unless its sizes are beyond all reason; what validate() says of it.
std::string take_config(CheckSubject& subject, const ModelConfig& config);
CheckSubject read_subject(const std::string& folder, const CheckOptions& options);
// Of the folder that a tokenizer is in: what config files there are, and the tokenizer, which has to load.
CheckSubject read_tokenizer_subject(const std::string& path);

class Findings {
 public:
  void add(std::string where, std::string found, std::string expected) {
    list_.push_back({std::move(where), std::move(found), std::move(expected)});
  }
  struct Item {
    std::string where, found, expected;
  };
  const std::vector<Item>& list() const { return list_; }

 private:
  std::vector<Item> list_;
};

struct Rule {
  const char* code;
  Severity severity;
  const char *sentence, *source, *fix;
  void (*run)(const CheckSubject& subject, Findings& findings);
};

struct RuleGroup {
  const char* subject;
  std::span<const Rule> rules;
};
extern const RuleGroup kFileRules, kPlacementRules, kNormRules, kWeightRules, kAttentionRules, kExpertRules,
    kVocabularyRules, kPrecisionRules, kTrainingRules, kTokenizerRules;

std::vector<TokenizerSample> built_in_samples();  // for kTokenizerRules

// One layer as its config says.
struct LayerView {
  const ModelConfig& config;
  Side side;
  int64_t index, layers;
  LayerConfig layer;  // resolved
  SublayerFormula formula;
};
struct LayerFault {
  std::string found, expected;
  bool operator==(const LayerFault&) const = default;
};
// Adds the faults of layers, neighbours with the same fault as one. Nothing without a config.
void by_layers(const CheckSubject& subject, Findings& findings,
               const std::function<std::optional<LayerFault>(const LayerView&)>& fault);

std::string side_name(Side side);
// A whole number under the first of these keys of config.json that has one.
std::optional<int64_t> whole(const JsonFields& json, std::initializer_list<const char*> keys);
// A tensor's name with its layer (and expert) numbers as "#".
std::string pattern_of(const std::string& name);

}  // namespace plumb
