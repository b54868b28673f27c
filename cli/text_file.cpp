#include "text_file.h"

#include <fstream>
#include <sstream>

#include "plumb/error.h"

namespace plumb::cli {

std::string read_whole_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw Error(ErrorKind::file, "cannot read " + path);
  return text.str();
}

}  // namespace plumb::cli
