// Files for tests: temporary folders, and the reference data that lies outside the tree.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace plumb::test {

// A new empty folder, removed with all it holds when this goes out of scope.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

void write_file(const std::filesystem::path& path, const std::string& content);  // makes its folder too
std::string read_file(const std::filesystem::path& path);                        // aborts if it cannot

// The source tree, and a file or folder of the reference data: below PLUMB_SHARED if that is set, else below
// the folder "shared" beside the source tree. May not exist: see SKIP_WITHOUT.
std::filesystem::path source_folder();
std::filesystem::path shared_path(const std::string& relative);

}  // namespace plumb::test

// First in a test that reads reference data.
#define SKIP_WITHOUT(path)                                   \
  if (!std::filesystem::exists(path))                        \
  GTEST_SKIP() << "no reference data at " << (path).string() \
               << "; PLUMB_SHARED names the folder that holds it"
