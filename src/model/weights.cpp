#include "model/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "plumb/error.h"

namespace plumb {
namespace {

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// The leaf after the last dot replaced.
std::string with_leaf(const std::string& name, const char* leaf) {
  return name.substr(0, name.rfind('.') + 1) + leaf;
}

// Digits between dots become "#".
std::string pattern_of(const std::string& name) {
  std::string pattern;
  for (size_t i = 0; i < name.size();) {
    const size_t end = std::min(name.find('.', i), name.size());
    const std::string part = name.substr(i, end - i);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    pattern += number ? "#" : part;
    if (end < name.size()) pattern += '.';
    i = end + 1;
  }
  return pattern;
}

bool has_untied_head(const ParameterTable& table) {
  return table.find("head.weight") != nullptr;
}

// The shape in the family's file: published ones store a bias on logits as one row.
Shape file_shape(const Family& family, const Parameter& p) {
  if (!family.names.empty() && p.name == "head.logits_bias") return {1, p.shape[0]};
  return p.shape;
}

bool is_float(DType t) {
  return t == DType::f32 || t == DType::f16 || t == DType::bf16;
}

// Products and look-ups take 16-bit operands as they are; everything else reads f32.
bool used_as_stored(const Parameter& p) {
  return p.role == Role::matrix || p.role == Role::embedding;
}

// The shards, checked against the index that names them.
std::vector<SafetensorsFile> open_shards(const std::string& folder) {
  const std::string index = join_path(folder, kIndex);
  const JsonFields fields(parse_json_file(index), index);
  std::map<std::string, std::set<std::string>> tensors_of;
  const Json& map = fields.raw("weight_map");
  if (!map.is_object()) throw Error(ErrorKind::file, index + ": weight_map is not an object");
  for (const auto& [tensor, file] : map.items()) {
    if (!file.is_string()) {
      throw Error(ErrorKind::file,
                  fmt::format("{}: {} is in {}, which is no file name", index, tensor, file.dump()));
    }
    const std::string name = file.get<std::string>();
    if (name.empty() || name.find('/') != name.npos) {
      throw Error(ErrorKind::file, fmt::format("{}: {} is in \"{}\", which is not a file of this folder",
                                               index, tensor, name));
    }
    tensors_of[name].insert(tensor);
  }
  if (tensors_of.empty()) throw Error(ErrorKind::file, index + ": weight_map names no tensor");
  std::vector<SafetensorsFile> shards;
  for (const auto& [name, tensors] : tensors_of) {
    shards.emplace_back(join_path(folder, name));
    for (const std::string& tensor : tensors) {
      if (!shards.back().find(tensor)) {
        throw Error(ErrorKind::file, fmt::format("{} lacks the tensor {}, which {} says it holds",
                                                 shards.back().path(), quote_json(tensor), index));
      }
    }
  }
  return shards;
}

}  // namespace

std::vector<SafetensorsFile> open_weights(const std::string& folder) {
  std::vector<SafetensorsFile> files;
  if (path_exists(join_path(folder, kWeights))) {
    files.emplace_back(join_path(folder, kWeights));
    return files;
  }
  if (path_exists(join_path(folder, kIndex))) return open_shards(folder);
  throw Error(ErrorKind::file,
              fmt::format("{} holds neither {} nor {}; files of other formats (pytorch_model.bin) have to be "
                          "converted to safetensors first",
                          folder, kWeights, kIndex));
}

namespace {

class Loader {
 public:
  Loader(const Family& family, ParameterTable& table)
      : family_(family), table_(table), names_(family, table) {}

  void add(const SafetensorsFile& file, const SafetensorsFile::Entry& entry) {
    if (Parameter* p = names_.parameter(entry.name)) {
      set(*p, file, entry);
    } else if (Parameter* other = names_.replaced(entry.name)) {
      replaced_.push_back({other, &file, &entry});
    } else if (Parameter* original = names_.copy_of(entry.name)) {
      copies_.push_back({original, file.path(), entry.name, file.tensor(entry)});
    } else if (!names_.ignored(entry.name)) {
      throw Error(ErrorKind::file,
                  fmt::format("{}: tensor {} {} has no place in the {} model that config.json describes",
                              file.path(), quote_json(entry.name), entry.shape.str(), family_.type));
    }
  }

  void finish(const std::string& folder) {
    for (const Replaced& r : replaced_) {
      if (!values_.contains(r.parameter)) set(*r.parameter, *r.file, *r.entry);
    }
    int64_t missing = 0;
    const Parameter* first = nullptr;
    for (const auto& p : table_.all()) {
      if (values_.contains(p.get())) continue;
      if (missing++ == 0) first = p.get();
    }
    if (missing > 0) {
      throw Error(ErrorKind::file, fmt::format("{}: the weights lack tensor \"{}\" {}{}", folder,
                                               names_.name(*first), file_shape(family_, *first).str(),
                                               missing > 1 ? fmt::format(" and {} more", missing - 1) : ""));
    }
    for (const Copy& copy : copies_) check(copy);
    for (const auto& [p, value] : values_) {
      const bool as_stored = value.dtype() == DType::f32 || used_as_stored(*p);
      p->value = as_stored ? value : owned_f32(value);
    }
  }

 private:
  struct Copy {
    const Parameter* original;
    std::string file, name;
    Tensor value;
  };

  // A tensor that is read only where the one that replaces it is not there.
  struct Replaced {
    Parameter* parameter;
    const SafetensorsFile* file;
    const SafetensorsFile::Entry* entry;
  };

  void set(Parameter& p, const SafetensorsFile& file, const SafetensorsFile::Entry& entry) {
    const std::string tensor = fmt::format("{}: tensor {}", file.path(), quote_json(entry.name));
    if (const Shape expected = file_shape(family_, p); entry.shape != expected) {
      throw Error(ErrorKind::file, fmt::format("{} has the shape {}, but by config.json it is {}", tensor,
                                               entry.shape.str(), expected.str()));
    }
    if (!is_float(entry.dtype)) {
      throw Error(ErrorKind::unsupported,
                  fmt::format("{} is stored as {}; plumb reads weights in F32, F16 and BF16", tensor,
                              dtype_name(entry.dtype)));
    }
    const auto [place, fresh] = values_.emplace(&p, file.tensor(entry).reshape(p.shape));
    if (!fresh) {
      throw Error(ErrorKind::file, fmt::format("{} is there twice, also as \"{}\"", tensor, sources_.at(&p)));
    }
    sources_[&p] = entry.name;
  }

  void check(const Copy& copy) const {
    const Tensor& original = values_.at(const_cast<Parameter*>(copy.original));
    const bool same = copy.value.dtype() == original.dtype() && copy.value.numel() == original.numel() &&
                      std::memcmp(copy.value.raw(), original.raw(), original.bytes()) == 0;
    if (same) return;
    throw Error(
        ErrorKind::file,
        fmt::format("{}: tensor {} differs from \"{}\", to which config.json ties it (tie_word_embeddings)",
                    copy.file, quote_json(copy.name), sources_.at(copy.original)));
  }

  const Family& family_;
  ParameterTable& table_;
  TensorNames names_;
  std::map<Parameter*, Tensor> values_;
  std::map<const Parameter*, std::string> sources_;
  std::vector<Copy> copies_;
  std::vector<Replaced> replaced_;
};

}  // namespace

TensorNames::TensorNames(const Family& family, const ParameterTable& table) : family_(family) {
  for (const auto& p : table.all()) {
    const std::string file = bare(file_name(family, p->name));
    PLUMB_CHECK(!file.empty(), "{} has no name in files of model_type {}", p->name, family.type);
    parameters_[file] = p.get();
  }
  if (family.names.empty()) return;
  for (const auto& p : table.all()) {
    if (p->role != Role::gain) continue;
    const std::string file = bare(file_name(family, p->name));
    parameters_.emplace(with_leaf(file, "gamma"), p.get());
    if (Parameter* bias = table.find(with_leaf(p->name, "bias")))
      parameters_.emplace(with_leaf(file, "beta"), bias);
  }
  for (const TensorName& copy : family.copies) {
    Parameter* original = table.find(copy.plumb);
    if (original) copies_.emplace(bare(copy.file), original);
  }
  if (!has_untied_head(table)) return;
  for (const TensorName& own : family.untied) {
    Parameter* p = table.find(own.plumb);
    if (!p) continue;
    const std::string usual = bare(file_name(family, p->name));
    parameters_.erase(usual);
    replaced_.emplace(usual, p);
    parameters_.emplace(bare(own.file), p);
  }
}

std::string TensorNames::bare(std::string_view tensor) const {
  if (!family_.prefix.empty() && tensor.starts_with(family_.prefix))
    tensor.remove_prefix(family_.prefix.size());
  return std::string(tensor);
}

Parameter* TensorNames::parameter(std::string_view tensor) const {
  const auto it = parameters_.find(bare(tensor));
  return it == parameters_.end() ? nullptr : it->second;
}

Parameter* TensorNames::replaced(std::string_view tensor) const {
  const auto it = replaced_.find(bare(tensor));
  return it == replaced_.end() ? nullptr : it->second;
}

Parameter* TensorNames::copy_of(std::string_view tensor) const {
  const auto it = copies_.find(bare(tensor));
  return it == copies_.end() ? nullptr : it->second;
}

bool TensorNames::ignored(std::string_view tensor) const {
  const std::string pattern = pattern_of(bare(tensor));
  return std::find(family_.ignored.begin(), family_.ignored.end(), pattern) != family_.ignored.end();
}

void load_weights(const std::string& folder, const Family& family, ParameterTable& table) {
  Loader loader(family, table);
  const std::vector<SafetensorsFile> files = open_weights(folder);
  for (const SafetensorsFile& file : files) {
    for (const auto& entry : file.entries()) loader.add(file, entry);
  }
  loader.finish(folder);
}

void save_weights(const std::string& path, const Family& family, const ParameterTable& table, DType stored) {
  std::vector<SavedTensor> tensors;
  for (const auto& p : table.all()) {
    tensors.push_back({file_name(family, p->name), p->value.reshape(file_shape(family, *p)), stored});
  }
  for (const TensorName& own : family.untied) {
    const Parameter* p = has_untied_head(table) ? table.find(own.plumb) : nullptr;
    if (p) tensors.push_back({std::string(own.file), p->value, stored});
  }
  write_safetensors(path, std::move(tensors));
}

}  // namespace plumb
