// Rules on the files themselves.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lab/check.h"
#include "model/families.h"
#include "model/tensor_names.h"

namespace plumb {
namespace {

void not_loadable(const CheckSubject& s, Findings& f) {
  if (s.load_error.empty() || s.unsupported) return;
  f.add(s.recipe() ? "recipe" : s.folder, s.load_error, "a model that loads");
}

void not_supported(const CheckSubject& s, Findings& f) {
  if (s.load_error.empty() || !s.unsupported) return;
  f.add(s.folder, s.load_error, "a family and options that plumb runs");
}

void damaged_weights(const CheckSubject& s, Findings& f) {
  for (const std::string& why : s.unread) f.add(s.folder, why, "weight files that are whole");
}

void wrong_type(const CheckSubject&, Findings&) {}  // found where other rules look (check.cpp)

std::string letters(const std::string& text) {
  std::string kept;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c))) kept += static_cast<char>(std::tolower(c));
  }
  return kept;
}

// LlamaForCausalLM of a model_type llama: the class begins like the type, or like its first word.
void class_of_other_type(const CheckSubject& s, Findings& f) {
  const std::string type = s.model_type();
  const std::vector<std::string> classes = s.json.texts("architectures");
  if (type.empty() || classes.empty()) return;
  const std::string name = letters(classes[0]);
  if (name.starts_with(letters(type)) || name.starts_with(letters(type.substr(0, type.find('_'))))) return;
  f.add("config.json: architectures", classes[0], "a class of model_type " + type);
}

void tensors_and_config_disagree(const CheckSubject& s, Findings& f) {
  if (!s.table || s.unsupported || s.tensors.empty()) return;
  const TensorNames names(*s.config, s.table->parameters());
  for (const FileTensor& known : names.all()) {
    const CheckTensor* t = s.find(known.parts[0]->name);
    if (!t) {
      f.add(known.name, "no such tensor", "shape " + known.shape.str());
    } else if (t->stored_shape != known.shape) {
      f.add(t->name, "shape " + t->stored_shape.str(), "shape " + known.shape.str() + " by config.json");
    }
  }
  for (const CheckTensor& t : s.tensors) {
    if (!t.parameter && !t.copy)
      f.add(t.name, "shape " + t.value.shape().str(), "no such tensor by config.json");
  }
}

void tokenizer_unread(const CheckSubject& s, Findings& f) {
  for (const std::string& why : s.lost)
    f.add("tokenizer.json", why, "a tokenizer that plumb follows exactly");
}

constexpr Rule kRules[] = {
    {"PL001", Severity::error, "The model cannot be loaded, or cannot be.",
     "safetensors format, docs/file-formats.md",
     "Mend what the message names; the other findings may say more of the same.", not_loadable},
    {"PL002", Severity::warning,
     "The model is of a family or uses an option that plumb does not run: only its files were checked.",
     "transformers, model classes by model_type", "Check what was not looked at by other means.",
     not_supported},
    {"PL003", Severity::error, "A weight file is missing, cut or malformed.",
     "safetensors format; 0xShug0/audio.cpp#138, ml-explore/mlx#3363", "Download or save the file again.",
     damaged_weights},
    {"PL004", Severity::warning,
     "A key of a config file has a value of another type than its readers expect.",
     "transformers, PretrainedConfig", "Write numbers as numbers, ids as whole numbers or lists of them.",
     wrong_type},
    {"PL005", Severity::error, "The class that config.json names is of another family than model_type.",
     "transformers, PretrainedConfig: architectures and model_type",
     "Set architectures to a class of the family, or model_type to the class's family.", class_of_other_type},
    {"PL006", Severity::error,
     "Tensors of the weight files and the shapes that config.json implies disagree.",
     "karpathy/nanoGPT#190 (a transposition that no shape check noticed)",
     "Take config.json and weights from the same save; a tensor too many is not read by anything.",
     tensors_and_config_disagree},
    {"PL007", Severity::warning, "The tokenizer cannot be read or followed exactly.",
     "ggml-org/llama.cpp#5496 (tokenizers that differ quietly)",
     "Save tokenizer.json again with a current tokenizers library.", tokenizer_unread},
};

}  // namespace

const RuleGroup kFileRules{"files", kRules};

}  // namespace plumb
