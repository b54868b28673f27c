// A model's weights in and out of a Hugging Face folder: model.safetensors, or shards that
// model.safetensors.index.json lists.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/families.h"
#include "model/safetensors.h"

namespace plumb {

// Which parameter a tensor of a family's file is. Files have the base model's prefix or lack it; norms of old
// files are called gamma and beta, which are other names at the end of a known norm's name only.
class TensorNames {
 public:
  TensorNames(const Family& family, const ParameterTable& table);

  Parameter* parameter(std::string_view tensor) const;  // null: none
  // The parameter that a file may hold once more under this name, because it is tied; null: none.
  Parameter* copy_of(std::string_view tensor) const;
  // The parameter whose value this tensor is where the file lacks the one of Family::untied; null: none.
  Parameter* replaced(std::string_view tensor) const;
  bool ignored(std::string_view tensor) const;  // a buffer or an unused head that old files hold
  std::string name(const Parameter& p) const { return file_name(family_, p.name); }

 private:
  std::string bare(std::string_view tensor) const;

  const Family& family_;
  std::map<std::string, Parameter*> parameters_, copies_, replaced_;  // by bare name
};

// model.safetensors, or the shards that its index lists, each with all that the index says it holds. Throws
// Error(file, unsupported).
std::vector<SafetensorsFile> open_weights(const std::string& folder);

// Gives every parameter its value: mapped where the file stores it aligned and as it is used (matrices and
// embeddings in f32, f16 or bf16, the rest in f32), else widened to f32. Throws Error(file, unsupported) for
// a tensor that is missing, that no parameter or exception of the family explains, of another shape, present
// twice, or not a float.
void load_weights(const std::string& folder, const Family& family, ParameterTable& table);

void save_weights(const std::string& path, const Family& family, const ParameterTable& table, DType stored);

}  // namespace plumb
