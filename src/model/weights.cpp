#include "model/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "model/tensor_names.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

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
  Loader(const ModelConfig& config, const ParameterTable& table)
      : type_(config.model_type), names_(config, table) {}

  void add(const SafetensorsFile& file, const SafetensorsFile::Entry& entry) {
    if (const FileTensor* t = names_.tensor(entry.name)) {
      set(*t, file, entry);
    } else if (const FileTensor* other = names_.replaced(entry.name)) {
      replaced_.push_back({other, &file, &entry});
    } else if (Parameter* original = names_.copy_of(entry.name)) {
      copies_.push_back({original, file.path(), entry.name, file.tensor(entry)});
    } else if (!names_.ignored(entry.name)) {
      throw Error(ErrorKind::file,
                  fmt::format("{}: tensor {} {} has no place in the {} model that config.json describes",
                              file.path(), quote_json(entry.name), entry.shape.str(), type_));
    }
  }

  void finish(const std::string& folder) {
    for (const Replaced& r : replaced_) {
      if (!sources_.contains(r.tensor)) set(*r.tensor, *r.file, *r.entry);
    }
    int64_t missing = 0;
    const FileTensor* first = nullptr;
    for (const FileTensor& t : names_.all()) {
      if (!sources_.contains(&t) && missing++ == 0) first = &t;
    }
    if (missing > 0) {
      throw Error(ErrorKind::file, fmt::format("{}: the weights lack tensor \"{}\" {}{}", folder, first->name,
                                               first->shape.str(),
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
    Parameter* original;
    std::string file, name;
    Tensor value;
  };

  // A tensor that is read only where the one that replaces it is not there.
  struct Replaced {
    const FileTensor* tensor;
    const SafetensorsFile* file;
    const SafetensorsFile::Entry* entry;
  };

  void set(const FileTensor& t, const SafetensorsFile& file, const SafetensorsFile::Entry& entry) {
    const std::string tensor = fmt::format("{}: tensor {}", file.path(), quote_json(entry.name));
    if (entry.shape != t.shape) {
      throw Error(ErrorKind::file, fmt::format("{} has the shape {}, but by config.json it is {}", tensor,
                                               entry.shape.str(), t.shape.str()));
    }
    if (!is_float(entry.dtype)) {
      throw Error(ErrorKind::unsupported,
                  fmt::format("{} is stored as {}; plumb reads weights in F32, F16 and BF16", tensor,
                              dtype_name(entry.dtype)));
    }
    const auto [place, fresh] = sources_.emplace(&t, entry.name);
    if (!fresh) {
      throw Error(ErrorKind::file, fmt::format("{} is there twice, also as \"{}\"", tensor, place->second));
    }
    const Tensor stored = file.tensor(entry);
    if (t.slices > 1) return set_slice(t, stored);
    for (size_t i = 0; i < t.parts.size(); ++i) {
      values_[t.parts[i]] = t.part(stored, i);
      named_[t.parts[i]] = entry.name;
    }
  }

  // Slices may be of several dtypes, so they meet in f32.
  void set_slice(const FileTensor& t, const Tensor& stored) {
    Parameter* p = t.parts[0];
    Tensor& whole = values_[p];
    if (!whole.defined()) whole = Tensor::empty(p->shape);
    const Tensor slice = owned_f32(stored);
    std::copy_n(slice.f32(), slice.numel(), whole.f32() + t.slice * slice.numel());
  }

  void check(const Copy& copy) const {
    const Tensor& original = values_.at(copy.original);
    const bool same = copy.value.dtype() == original.dtype() && copy.value.numel() == original.numel() &&
                      std::memcmp(copy.value.raw(), original.raw(), original.bytes()) == 0;
    if (same) return;
    throw Error(
        ErrorKind::file,
        fmt::format("{}: tensor {} differs from \"{}\", to which config.json ties it (tie_word_embeddings)",
                    copy.file, quote_json(copy.name), named_.at(copy.original)));
  }

  std::string type_;
  TensorNames names_;
  std::map<const FileTensor*, std::string> sources_;  // the name under which the file has it
  std::map<Parameter*, Tensor> values_;
  std::map<const Parameter*, std::string> named_;
  std::vector<Copy> copies_;
  std::vector<Replaced> replaced_;
};

}  // namespace

void load_weights(const std::string& folder, const ModelConfig& config, ParameterTable& table) {
  Loader loader(config, table);
  const std::vector<SafetensorsFile> files = open_weights(folder);
  for (const SafetensorsFile& file : files) {
    for (const auto& entry : file.entries()) loader.add(file, entry);
  }
  loader.finish(folder);
}

void save_weights(const std::string& path, const ModelConfig& config, const ParameterTable& table,
                  DType stored) {
  std::vector<SavedTensor> tensors;
  const TensorNames names(config, table);
  for (const FileTensor& t : names.all()) {
    tensors.push_back({t.name, t.in_file([](const Parameter& p) { return p.value; }), stored});
  }
  for (const TensorName& own : family(config.model_type).untied) {
    const Parameter* p = table.find("head.weight") ? table.find(own.plumb) : nullptr;
    if (p) tensors.push_back({std::string(own.file), p->value, stored});
  }
  write_safetensors(path, std::move(tensors));
}

}  // namespace plumb
