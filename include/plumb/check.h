// A lint of a model folder or of a recipe: rules with a published reason each, and what they find.
// docs/check.md lists the rules. Threads: safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plumb/config.h"
#include "plumb/config_fields.h"
#include "plumb/trainer.h"

namespace plumb {

enum class Severity {
  note,     // worth knowing
  warning,  // probably not meant
  error,    // will not load, or cannot compute what was meant
};
template <>
struct EnumNames<Severity> {
  static constexpr std::array names{"note", "warning", "error"};
};

struct CheckRule {
  std::string code;  // PL101; a code keeps its meaning
  Severity severity = Severity::warning;
  std::string subject;   // placement, norms, weights, ...
  std::string sentence;  // what is wrong where the rule finds something
  std::string source;    // the paper or published report that shows it
  std::string fix;
};

struct CheckFinding {
  std::string code;
  Severity severity = Severity::warning;
  std::string where;     // file, key, tensor or layers
  std::string found;     // with figures
  std::string expected;  // likewise
};

class RunObserver;  // internal: Probe::observer() is one

struct CheckOptions {
  std::string text;                      // sample for what is measured; "": a built-in one
  std::optional<TrainOptions> training;  // how the model was or will be trained, where that is known
  RunObserver* observer = nullptr;  // sees the pass over the sample text, where one is made; null: nobody
};

const std::vector<CheckRule>& check_rules();  // by code

// Every rule that applies, by code. A folder in the Hugging Face layout; what can be read is checked even
// where the model cannot be loaded, which is a finding itself. Throws Error(file) where there is no
// config.json.
std::vector<CheckFinding> check_folder(const std::string& folder, const CheckOptions& options = {});

// Of a model that has no weights yet: the rules on the config and on the training.
std::vector<CheckFinding> check_recipe(const ModelConfig& config, const TrainOptions& training);

struct TokenizerSample {
  std::string name, text;
};

// A tokenizer (a file or folder that Tokenizer::load takes), on built-in samples of many scripts and those
// given; beside the config files of its folder, where there are any. The rules of the subjects "vocabulary"
// and "tokenizer". Throws what the load throws.
std::vector<CheckFinding> check_tokenizer(const std::string& path,
                                          const std::vector<TokenizerSample>& samples = {});

}  // namespace plumb
