// Files for tests: written and read whole, and the reference data that lies outside the tree.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/test_support.h"

namespace plumb::test {

void write_file(const std::filesystem::path& path, const std::string& content);  // makes its folder too
std::string read_file(const std::filesystem::path& path);                        // aborts if it cannot

// The source tree, and a file or folder of the reference data: below PLUMB_SHARED if that is set, else below
// the folder "shared" beside the source tree. May not exist: see SKIP_WITHOUT.
std::filesystem::path source_folder();
std::filesystem::path shared_path(const std::string& relative);
// The folder of recorded models: what PLUMB_GOLDEN names, or golden/ of the reference data.
std::filesystem::path golden_path();

}  // namespace plumb::test

// First in a test that reads reference data.
#define SKIP_WITHOUT(path)                                   \
  if (!std::filesystem::exists(path))                        \
  GTEST_SKIP() << "no reference data at " << (path).string() \
               << "; PLUMB_SHARED names the folder that holds it"
