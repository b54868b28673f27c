#include "base/embedded.h"

#include "base/check.h"

namespace plumb {

std::string_view embedded_file(std::string_view name) {
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.name == name) return file.content;
  }
  check_failed(__FILE__, __LINE__, "an embedded file of that name", std::string(name));
}

}  // namespace plumb
