#include "model/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "model/head_classes.h"

namespace plumb {
namespace {

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

bool has_untied_head(const ModelConfig& config, const ParameterTable& table) {
  return config.head == Head::language_model && table.find("head.weight") != nullptr;
}

// What the base model's tensors are called by: the family's word, but for some heads.
std::string_view prefix_of(const ModelConfig& config, const Family& family) {
  const std::string_view own = head_class(config).prefix;
  return own.empty() ? family.prefix : own;
}

// The layer that a parameter belongs to; of one outside layers, the stack's first.
LayerConfig layer_of(const ModelConfig& config, const std::string& name) {
  const Side side = name.starts_with("encoder.") || !config.has_decoder() ? Side::encoder : Side::decoder;
  const size_t dot = name.find('.');
  const bool numbered = dot + 1 < name.size() && name[dot + 1] >= '0' && name[dot + 1] <= '9';
  return resolved_layer(config, side, numbered ? std::stoll(name.substr(dot + 1)) : 0);
}

// Files that fuse Q, K and V keep the heads that share a key together: their queries, the key, the value.
std::vector<int64_t> rows_by_group(const LayerConfig& c) {
  const int64_t group = c.heads / c.kv_heads, d = c.head_dim, stride = (group + 2) * d;
  std::vector<int64_t> rows;
  rows.reserve((c.heads + 2 * c.kv_heads) * d);
  const auto head = [&](int64_t first) {
    for (int64_t i = 0; i < d; ++i) rows.push_back(first + i);
  };
  for (int64_t h = 0; h < c.heads; ++h) head(h / group * stride + h % group * d);
  for (int64_t g = 0; g < c.kv_heads; ++g) head(g * stride + group * d);
  for (int64_t g = 0; g < c.kv_heads; ++g) head(g * stride + (group + 1) * d);
  return rows;
}

// Gate and up row by row in turns.
std::vector<int64_t> rows_in_turns(int64_t count) {
  std::vector<int64_t> rows;
  rows.reserve(count);
  for (int64_t first = 0; first < 2; ++first) {
    for (int64_t r = 0; r < count / 2; ++r) rows.push_back(2 * r + first);
  }
  return rows;
}

// The shape of one part in the file: published ones store a bias on logits as one row.
Shape part_shape(const Family& family, const Parameter& p, bool transposed) {
  if (!family.names.empty() && p.name == "head.logits_bias") return {1, p.shape[0]};
  if (transposed && p.shape.rank() == 2) return {p.shape[1], p.shape[0]};
  return p.shape;
}

size_t row_bytes(const Tensor& t) {
  return t.shape()[0] == 0 ? 0 : t.bytes() / static_cast<size_t>(t.shape()[0]);
}

void copy_row(const Tensor& from, int64_t row, const Tensor& to, int64_t at) {
  const size_t bytes = row_bytes(from);
  std::memcpy(static_cast<char*>(to.raw()) + at * bytes, static_cast<const char*>(from.raw()) + row * bytes,
              bytes);
}

Tensor transpose_of(const Tensor& t) {
  const int64_t rows = t.size(0), columns = t.size(1);
  const size_t size = dtype_size(t.dtype());
  Tensor y = Tensor::empty({columns, rows}, t.dtype());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      std::memcpy(static_cast<char*>(y.raw()) + (c * rows + r) * size,
                  static_cast<const char*>(t.raw()) + (r * columns + c) * size, size);
    }
  }
  return y;
}

}  // namespace

Tensor FileTensor::part(const Tensor& stored, size_t i) const {
  if (slices > 1) return stored;
  const Parameter& p = *parts[i];
  Tensor t = stored;
  if (stacked) {
    std::vector<int64_t> dims = shape.dims();
    dims.erase(dims.begin());
    t = stored.rows_view(static_cast<int64_t>(i), 1).reshape(Shape(dims));
  }
  if (transposed && t.shape().rank() == 2) t = transpose_of(t);
  if (rows.empty()) return t.reshape(p.shape);
  Tensor y = Tensor::empty(p.shape, t.dtype());
  for (size_t r = 0; r < rows.size(); ++r) copy_row(t, rows[r], y, static_cast<int64_t>(r));
  return y;
}

Tensor FileTensor::in_file(const std::function<Tensor(const Parameter&)>& of) const {
  if (plain()) return of(*parts[0]).reshape(shape);
  if (slices > 1) {
    const Tensor whole = of(*parts[0]).reshape({slices, shape.numel()});
    return whole.rows_view(slice, 1).reshape(shape).clone();
  }
  Tensor y;
  for (size_t i = 0; i < parts.size(); ++i) {
    Tensor t = of(*parts[i]);
    if (!rows.empty()) {
      const Tensor ordered = Tensor::empty(t.shape(), t.dtype());
      for (size_t r = 0; r < rows.size(); ++r) copy_row(t, static_cast<int64_t>(r), ordered, rows[r]);
      t = ordered;
    }
    if (transposed && t.shape().rank() == 2) t = transpose_of(t);
    if (!y.defined()) y = Tensor::empty(shape, t.dtype());
    PLUMB_CHECK(t.dtype() == y.dtype(), "{} is stacked from several dtypes", name);
    std::memcpy(static_cast<char*>(y.raw()) + i * t.bytes(), t.raw(), t.bytes());
  }
  return y;
}

TensorNames::TensorNames(const ModelConfig& config, const ParameterTable& table)
    : config_(config), family_(family(config.model_type)), prefix_(prefix_of(config, family_)) {
  for (const auto& p : table.all()) {
    if (!p->adapts) add(*p);
  }
  if (family_.names.empty()) return;
  add_old_norms(table);
  for (const TensorName& copy : family_.copies) {
    Parameter* original = config.head == Head::language_model ? table.find(copy.plumb) : nullptr;
    if (original) copies_.emplace(bare(copy.file), original);
  }
  if (has_untied_head(config, table)) add_untied(table);
}

void TensorNames::add(Parameter& p) {
  const FileName file = file_name(config_, p.name);
  PLUMB_CHECK(!file.name.empty(), "{} has no name in files of model_type {}", p.name, family_.type);
  if (file.layout.stacked) {
    const auto it = by_name_.find(bare(file.name));
    if (it != by_name_.end()) {
      FileTensor& stack = *it->second;
      stack.parts.push_back(&p);
      std::vector<int64_t> dims = stack.shape.dims();
      ++dims[0];
      stack.shape = Shape(dims);
      return;
    }
  }
  FileTensor t{.name = file.name, .parts = {&p}, .stacked = file.layout.stacked};
  t.transposed = file.layout.transposed;
  t.shape = part_shape(family_, p, t.transposed);
  if (file.layout.by_group) t.rows = rows_by_group(layer_of(config_, p.name));
  if (file.layout.in_turns) t.rows = rows_in_turns(p.shape[0]);
  if (t.stacked) {
    std::vector<int64_t> dims = t.shape.dims();
    dims.insert(dims.begin(), 1);
    t.shape = Shape(dims);
  }
  if (!file.layout.by_head) {
    tensors_.push_back(std::move(t));
    by_name_[bare(tensors_.back().name)] = &tensors_.back();
    return;
  }
  const int64_t head_dim = layer_of(config_, p.name).head_dim;
  t.slices = p.shape.numel() / head_dim;
  t.shape = {head_dim};
  const size_t star = t.name.find('*');
  for (t.slice = 0; t.slice < t.slices; ++t.slice) {
    tensors_.push_back(t);
    tensors_.back().name.replace(star, 1, std::to_string(t.slice));
    by_name_[bare(tensors_.back().name)] = &tensors_.back();
  }
}

void TensorNames::add_old_norms(const ParameterTable& table) {
  for (const auto& p : table.all()) {
    if (p->role != Role::gain) continue;
    const std::string file = bare(file_name(config_, p->name).name);
    const auto gain = by_name_.find(file);
    if (gain == by_name_.end()) continue;
    by_name_.emplace(with_leaf(file, "gamma"), gain->second);
    if (!table.find(with_leaf(p->name, "bias"))) continue;
    const auto bias = by_name_.find(bare(file_name(config_, with_leaf(p->name, "bias")).name));
    if (bias != by_name_.end()) by_name_.emplace(with_leaf(file, "beta"), bias->second);
  }
}

void TensorNames::add_untied(const ParameterTable& table) {
  for (const TensorName& own : family_.untied) {
    Parameter* p = table.find(own.plumb);
    if (!p) continue;
    const std::string usual = bare(file_name(config_, p->name).name);
    const auto it = by_name_.find(usual);
    replaced_.emplace(usual, it->second);
    by_name_.emplace(bare(own.file), it->second);
    by_name_.erase(it);
  }
}

std::string TensorNames::bare(std::string_view name) const {
  if (!prefix_.empty() && name.starts_with(prefix_)) name.remove_prefix(prefix_.size());
  return std::string(name);
}

const FileTensor* TensorNames::tensor(std::string_view name) const {
  const auto it = by_name_.find(bare(name));
  return it == by_name_.end() ? nullptr : it->second;
}

const FileTensor* TensorNames::replaced(std::string_view name) const {
  const auto it = replaced_.find(bare(name));
  return it == replaced_.end() ? nullptr : it->second;
}

Parameter* TensorNames::copy_of(std::string_view name) const {
  const auto it = copies_.find(bare(name));
  return it == copies_.end() ? nullptr : it->second;
}

bool TensorNames::ahead(std::string_view name) const {
  return family_.predicts_ahead && bare(name).starts_with(fmt::format("layers.{}.", config_.decoder_layers));
}

bool TensorNames::ignored(std::string_view name) const {
  const std::string pattern = pattern_of(bare(name));
  return std::find(family_.ignored.begin(), family_.ignored.end(), pattern) != family_.ignored.end();
}

}  // namespace plumb
