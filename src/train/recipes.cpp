// The recipes that the library carries.
#include "base/embedded.h"
#include "plumb/error.h"
#include "plumb/suggest.h"
#include "plumb/trainer.h"

namespace plumb {
namespace {

constexpr std::string_view kFolder = "recipes/", kSuffix = ".toml";

}  // namespace

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_files()) {
    if (!file.name.starts_with(kFolder) || !file.name.ends_with(kSuffix)) continue;
    names.emplace_back(file.name.substr(kFolder.size(), file.name.size() - kFolder.size() - kSuffix.size()));
  }
  return names;
}

std::string recipe_text(const std::string& name) {
  const std::vector<std::string> names = recipe_names();
  for (const std::string& known : names) {
    if (known == name) return std::string(embedded_file(std::string(kFolder) + name + std::string(kSuffix)));
  }
  std::string all;
  for (const std::string& known : names) all += (all.empty() ? "" : ", ") + known;
  throw Error(ErrorKind::usage, "there is no recipe file " + name +
                                    ", nor one that is built in under that name (" + all + ")" +
                                    did_you_mean(name, names));
}

}  // namespace plumb
