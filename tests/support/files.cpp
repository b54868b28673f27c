#include "support/files.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace plumb::test {
namespace {

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "test support: %s\n", what.c_str());
  std::abort();
}

}  // namespace

void write_file(const std::filesystem::path& path, const std::string& content) {
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (!file) give_up("cannot write " + path.string());
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) give_up("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

std::filesystem::path source_folder() {
  return PLUMB_SOURCE_FOLDER;
}

std::filesystem::path shared_path(const std::string& relative) {
  const char* folder = std::getenv("PLUMB_SHARED");
  return (folder ? std::filesystem::path(folder) : source_folder().parent_path() / "shared") / relative;
}

std::filesystem::path golden_path() {
  const char* folder = std::getenv("PLUMB_GOLDEN");
  return folder ? folder : shared_path("golden");
}

}  // namespace plumb::test
