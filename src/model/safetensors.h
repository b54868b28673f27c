// safetensors files: 8 bytes of header length (little-endian), a JSON header {name: {dtype, shape,
// data_offsets}}, then the tensors' bytes. https://github.com/huggingface/safetensors#format
//
// A reader maps the file and checks the whole header before anything is used: every tensor's dtype, shape and
// range agree, ranges neither overlap nor leave bytes unnamed, no key is given twice, and the header is at
// most kMaxSafetensorsHeader bytes (the reference's own cap). So a file costs memory for its header and
// nothing it merely claims. Every fault is Error(file) (unknown dtypes: unsupported) that names the file and
// the tensor.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "tensor/tensor.h"

namespace plumb {

constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    DType dtype = DType::f32;  // of F64 F32 F16 BF16 I64 I32 U8 and BOOL (as u8)
    Shape shape;
    uint64_t begin = 0, end = 0;  // bytes from the start of the file
  };

  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::vector<Entry>& entries() const { return entries_; }  // sorted by name
  const Entry* find(std::string_view name) const;                 // null if there is none
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // The values, in the mapped file itself where they are aligned for their type, else a copy. A mapped tensor
  // is read-only memory and keeps the map alive.
  Tensor tensor(const Entry& entry) const;
  // Of a tensor that has to be there with this dtype.
  Tensor tensor(std::string_view name, DType dtype) const;

 private:
  void read_header(std::string_view header, uint64_t data);

  MappedFile file_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

struct SavedTensor {
  std::string name;
  Tensor value;
  DType stored = DType::f32;  // the value's own, or a float format it is converted to
};

// Writes beside the target and renames. The bytes depend on the arguments alone. Throws Error(file), and
// Error(numeric) naming the tensor if a finite value does not fit the format it is stored in.
void write_safetensors(const std::string& path, std::vector<SavedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace plumb
