#include "model/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "model/adapter.h"
#include "model/tensor_names.h"
#include "model/weight_files.h"
#include "plumb/error.h"

namespace plumb {
namespace {

bool is_float(DType t) {
  return t == DType::f32 || t == DType::f16 || t == DType::bf16;
}

// Products and look-ups take 16-bit operands as they are; everything else reads f32.
bool used_as_stored(const Parameter& p) {
  return p.role == Role::matrix || p.role == Role::embedding;
}

// How GPT-OSS is published: blocks of 4-bit numbers and their scales, of which config.json may say nothing.
bool is_mxfp4(const TensorFile::Entry& entry) {
  return entry.dtype == DType::u8 && (entry.name.ends_with("_blocks") || entry.name.ends_with("_scales"));
}

class Loader {
 public:
  Loader(const ModelConfig& config, const ParameterTable& table)
      : type_(config.model_type), names_(config, table) {}

  void add(const TensorFile& file, const TensorFile::Entry& entry) {
    if (const FileTensor* t = names_.tensor(entry.name)) {
      set(*t, file, entry);
    } else if (const FileTensor* other = names_.replaced(entry.name)) {
      replaced_.push_back({other, &file, &entry});
    } else if (Parameter* original = names_.copy_of(entry.name)) {
      copies_.push_back({original, file.path(), entry.name, file.tensor(entry)});
    } else if (names_.ahead(entry.name)) {
      ahead_.push_back({&file, &entry});
    } else if (is_mxfp4(entry)) {
      throw Error(
          ErrorKind::unsupported,
          fmt::format("{}: tensor {} is part of a matrix in MXFP4; plumb reads weights in F32, F16 and "
                      "BF16",
                      file.path(), quote_json(entry.name)));
    } else if (!names_.ignored(entry.name)) {
      refuse(file, entry);
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
    check_ahead();
    for (const Copy& copy : copies_) check(copy);
    for (const auto& [p, value] : values_) {
      const bool as_stored = value.dtype() == DType::f32 || used_as_stored(*p);
      p->value = as_stored ? value : owned_f32(value);
    }
  }

 private:
  // An entry that is passed over.
  struct Ahead {
    const TensorFile* file;
    const TensorFile::Entry* entry;
  };

  [[noreturn]] void refuse(const TensorFile& file, const TensorFile::Entry& entry) const {
    throw Error(ErrorKind::file,
                fmt::format("{}: tensor {} {} has no place in the {} model that config.json describes",
                            file.path(), quote_json(entry.name), entry.shape.str(), type_));
  }

  // A layer that predicts ahead has a map of its own before it; otherwise config.json lacks a layer.
  void check_ahead() const {
    const auto maps = [](const Ahead& a) { return a.entry->name.ends_with(".eh_proj.weight"); };
    if (!ahead_.empty() && std::none_of(ahead_.begin(), ahead_.end(), maps))
      refuse(*ahead_[0].file, *ahead_[0].entry);
  }

  struct Copy {
    Parameter* original;
    std::string file, name;
    Tensor value;
  };

  // A tensor that is read only where the one that replaces it is not there.
  struct Replaced {
    const FileTensor* tensor;
    const TensorFile* file;
    const TensorFile::Entry* entry;
  };

  void set(const FileTensor& t, const TensorFile& file, const TensorFile::Entry& entry) {
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
  std::vector<Ahead> ahead_;
};

}  // namespace

void load_weights(const std::string& folder, const ModelConfig& config, ParameterTable& table) {
  Loader loader(config, table);
  const std::vector<TensorFile> files = open_weights(folder);
  for (const TensorFile& file : files) {
    for (const auto& entry : file.entries()) loader.add(file, entry);
  }
  loader.finish(folder);
}

void save_weights(const std::string& folder, const ModelConfig& config, const ParameterTable& table,
                  const Storing& storing) {
  std::vector<SavedTensor> tensors;
  const TensorNames names(config, table);
  for (const FileTensor& t : names.all()) {
    tensors.push_back({t.name, t.in_file(merged_value), storing.dtype});
  }
  for (const TensorName& own : family(config.model_type).untied) {
    const bool untied = config.head == Head::language_model && table.find("head.weight");
    const Parameter* p = untied ? table.find(own.plumb) : nullptr;
    if (p) tensors.push_back({std::string(own.file), p->value, storing.dtype});
  }
  write_weights(folder, std::move(tensors), storing.shard_bytes);
}

}  // namespace plumb
