#include "model_cases.h"

#include <stdexcept>

#include "base/file.h"
#include "base/hash.h"
#include "base/test_support.h"
#include "model/families.h"
#include "model/safetensors.h"
#include "model/torch_archive.h"
#include "model/torch_file.h"
#include "plumb/model.h"

namespace plumb::fuzz {
namespace {

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

void check_config(std::string_view bytes) {
  const ModelConfig config = read_config(std::string(bytes), "config.json");
  constexpr int64_t kFew = 16;  // layers: what follows is right for more, and slow
  if (config.encoder_layers + config.decoder_layers > kFew || config.layer.experts > kFew) return;
  std::string why;
  expect(family_fits(config, &why), "what was read can't be written: " + why);
  expect(!model_parameters(config).empty(), "a model without parameters");
  expect(model_cost(config, 1).parameters > 0, "a model without numbers that train");
}

void check_tensors(const TensorFile& file) {
  for (const TensorFile::Entry& entry : file.entries()) {
    expect(file.find(entry.name) == &entry, "a tensor is not found by its name");
    const Tensor t = file.tensor(entry);
    hash_bytes({static_cast<const char*>(t.raw()), t.bytes()});
  }
}

void check_file(const std::string& kind, std::string_view bytes) {
  const TempFolder folder;
  const std::string path = folder / "weights";
  std::string content(bytes);
  if (kind == "pickle")
    content = zip_of(
        {{"a/data.pkl", content}, {"a/data/0", std::string(24, '\1')}, {"a/data/1", std::string(16, '\1')}});
  write_file_atomically(path, content);
  kind == "safetensors" ? check_tensors(SafetensorsFile(path)) : check_tensors(TorchFile(path));
}

}  // namespace

const std::vector<std::string>& model_kinds() {
  static const std::vector<std::string> names = {"config", "pickle", "safetensors", "torch"};
  return names;
}

void run_model_case(const std::string& kind, std::string_view bytes) {
  try {
    kind == "config" ? check_config(bytes) : check_file(kind, bytes);
  } catch (const Error&) {
    return;
  }
}

}  // namespace plumb::fuzz
