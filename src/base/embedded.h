// Files that are part of the library: "chart.js", the parts of the report ("report.html", ...), and the
// recipes as "recipes/<name>.toml".
#pragma once

#include <span>
#include <string_view>

namespace plumb {

struct EmbeddedFile {
  std::string_view name;
  std::string_view content;
};

std::span<const EmbeddedFile> embedded_files();

// The content of a file that is known to be there; for a name that a user gave, look through
// embedded_files().
std::string_view embedded_file(std::string_view name);

}  // namespace plumb
