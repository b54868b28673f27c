#include "plumb/suggest.h"

#include <algorithm>

namespace plumb {
namespace {

// Optimal string alignment: Damerau, CACM 7 (1964), with each letter edited once.
size_t edit_distance(std::string_view a, std::string_view b) {
  const size_t width = b.size() + 1;
  std::vector<size_t> d((a.size() + 1) * width);
  for (size_t j = 0; j < width; ++j) d[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    d[i * width] = i;
    for (size_t j = 1; j < width; ++j) {
      const size_t at = i * width + j;
      d[at] = std::min({d[at - width] + 1, d[at - 1] + 1, d[at - width - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[at] = std::min(d[at], d[at - 2 * width - 2] + 1);
      }
    }
  }
  return d.back();
}

constexpr size_t kLongestName = 100;  // what is longer is no mistyped name, and would cost time to measure

}  // namespace

std::string nearest_name(std::string_view got, const std::vector<std::string>& known) {
  std::string nearest;
  if (got.size() > kLongestName) return nearest;
  size_t fewest = std::max<size_t>(1, got.size() / 3) + 1;
  for (const std::string& name : known) {
    const size_t edits = name.size() > kLongestName ? fewest : edit_distance(got, name);
    if (edits < fewest) {
      fewest = edits;
      nearest = name;
    }
  }
  return nearest;
}

std::string did_you_mean(std::string_view got, const std::vector<std::string>& known) {
  const std::string name = nearest_name(got, known);
  return name.empty() ? "" : "; did you mean \"" + name + "\"?";
}

}  // namespace plumb
