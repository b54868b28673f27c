// A mapped file of named tensors, whatever its format: safetensors.h and torch_file.h read theirs into this.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "tensor/tensor.h"

namespace plumb {

class TensorFile {
 public:
  struct Entry {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;
    uint64_t begin = 0, end = 0;   // bytes from the start of the file
    std::vector<int64_t> strides;  // in numbers, of each dim; empty: row-major, as Tensors are
  };

  const std::string& path() const { return file_.path(); }
  const std::vector<Entry>& entries() const { return entries_; }                    // sorted by name
  const Entry* find(std::string_view name) const;                                   // null if there is none
  const std::map<std::string, std::string>& metadata() const { return metadata_; }  // of safetensors

  // The values, in the mapped file itself where they lie row-major and are aligned for their type, else a
  // copy. A mapped tensor is read-only memory and keeps the map alive.
  Tensor tensor(const Entry& entry) const;
  // Of a tensor that has to be there with this dtype.
  Tensor tensor(std::string_view name, DType dtype) const;

 protected:
  explicit TensorFile(const std::string& path) : file_(path) {}

  MappedFile file_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace plumb
