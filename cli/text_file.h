// Files that a command line names.
#pragma once

#include <string>

namespace plumb::cli {

std::string read_whole_file(const std::string& path);  // Error(file) where it cannot be

}  // namespace plumb::cli
