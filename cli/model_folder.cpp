#include "model_folder.h"

#include <filesystem>

namespace plumb::cli {

std::string model_folder(const std::string& given) {
  namespace fs = std::filesystem;
  const fs::path inside = fs::path(given) / "model";
  std::error_code none;
  const bool run =
      !fs::exists(fs::path(given) / "config.json", none) && fs::exists(inside / "config.json", none);
  return run ? inside.string() : given;
}

}  // namespace plumb::cli
