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

#include "model/tensor_file.h"

namespace plumb {

constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

// Entries are of F64 F32 F16 BF16 I64 I32 U8 and BOOL (as u8).
class SafetensorsFile : public TensorFile {
 public:
  explicit SafetensorsFile(const std::string& path);

 private:
  void read_header(std::string_view header, uint64_t data);
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
