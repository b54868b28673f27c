// pytorch_model.bin as torch.save has written it since PyTorch 1.6: a zip archive of NAME/data.pkl, a pickle
// of a dict from names to tensors, and NAME/data/KEY for each storage that they are views of.
//
// The pickle is read by an allow-list (pickle.h) of what tensors are made of; everything else that it names
// is refused, and nothing is called. Each storage has to be there with the bytes that the pickle says, and
// each view has to lie in its storage. Files cost memory for the directory and the pickle. Faults are
// Error(file); Error(unsupported) for types that plumb lacks, other names, files of PyTorch before 1.6 and
// TorchScript. All name the file and the tensor.
#pragma once

#include "model/tensor_file.h"

namespace plumb {

class TorchFile : public TensorFile {
 public:
  explicit TorchFile(const std::string& path);
};

}  // namespace plumb
