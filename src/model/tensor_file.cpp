#include "model/tensor_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "plumb/error.h"

namespace plumb {
namespace {

// The values of a view with strides, from its first one on, side by side.
Tensor gathered(const TensorFile::Entry& entry, const char* from) {
  Tensor t = Tensor::empty(entry.shape, entry.dtype);
  const size_t bytes = dtype_size(entry.dtype);
  char* to = static_cast<char*>(t.raw());
  std::vector<int64_t> index(entry.strides.size());
  int64_t at = 0;
  for (int64_t i = 0; i < t.numel(); ++i) {
    std::memcpy(to + i * bytes, from + at * bytes, bytes);
    for (int dim = entry.shape.rank() - 1; dim >= 0; --dim) {
      at += entry.strides[dim];
      if (++index[dim] < entry.shape[dim]) break;
      at -= index[dim] * entry.strides[dim];
      index[dim] = 0;
    }
  }
  return t;
}

}  // namespace

const TensorFile::Entry* TensorFile::find(std::string_view name) const {
  const auto it = std::lower_bound(entries_.begin(), entries_.end(), name,
                                   [](const Entry& e, std::string_view n) { return e.name < n; });
  return it != entries_.end() && it->name == name ? &*it : nullptr;
}

Tensor TensorFile::tensor(const Entry& entry) const {
  char* at = const_cast<char*>(file_.data()) + entry.begin;
  if (!entry.strides.empty()) return gathered(entry, at);
  const Tensor mapped =
      Tensor::view(entry.shape, entry.dtype, at, std::const_pointer_cast<void>(file_.keeper()));
  const bool aligned = reinterpret_cast<uintptr_t>(at) % dtype_size(entry.dtype) == 0;
  return aligned ? mapped : mapped.clone();
}

Tensor TensorFile::tensor(std::string_view name, DType dtype) const {
  const Entry* entry = find(name);
  if (!entry) throw Error(ErrorKind::file, fmt::format("{} lacks the tensor {}", path(), quote_json(name)));
  if (entry->dtype != dtype) {
    throw Error(ErrorKind::file, fmt::format("{}: tensor {} is {}, expected {}", path(), quote_json(name),
                                             dtype_name(entry->dtype), dtype_name(dtype)));
  }
  return tensor(*entry);
}

}  // namespace plumb
