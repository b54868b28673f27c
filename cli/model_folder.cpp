#include "model_folder.h"

#include <filesystem>

namespace plumb::cli {
namespace {

namespace fs = std::filesystem;

bool holds_model(const fs::path& folder) {
  std::error_code none;
  return fs::exists(folder / "config.json", none) || fs::exists(folder / "adapter_config.json", none);
}

}  // namespace

std::string base_folder;

std::string model_folder(const std::string& given) {
  const fs::path inside = fs::path(given) / "model";
  return !holds_model(given) && holds_model(inside) ? inside.string() : given;
}

Model load_model(const std::string& given) {
  const std::string folder = model_folder(given);
  return is_adapter(folder) ? Model::load(folder, base_folder) : Model::load(folder);
}

Tokenizer load_tokenizer(const std::string& given) {
  const std::string folder = model_folder(given);
  if (!is_adapter(folder)) return Tokenizer::load(folder);
  const std::string base = base_folder.empty() ? adapter_base(folder) : base_folder;
  return Tokenizer::load(Tokenizer::is_in(folder) || base.empty() ? folder : base);
}

}  // namespace plumb::cli
