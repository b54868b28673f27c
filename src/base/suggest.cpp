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
constexpr size_t kShortestPart = 3;   // letters that a name has to share with a longer one to be meant by it

// As names are compared: BF16 and bf16, warmup_steps and warmup-steps are one.
std::string folded(std::string_view name) {
  std::string text(name);
  for (char& c : text) {
    if (c == '_') c = '-';
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// Whether one is the other's beginning: rms and rms-norm, --batch-size and --batch.
bool begins(std::string_view a, std::string_view b) {
  const std::string_view part = a.size() < b.size() ? a : b, whole = a.size() < b.size() ? b : a;
  const size_t dashes = std::min(part.size(), part.find_first_not_of('-'));
  return part.size() - dashes >= kShortestPart && whole.starts_with(part);
}

}  // namespace

std::string nearest_name(std::string_view got, const std::vector<std::string>& known) {
  std::string nearest, part;
  if (got.size() > kLongestName) return nearest;
  const std::string typed = folded(got);
  size_t fewest = std::max<size_t>(1, got.size() / 3) + 1, most_shared = 0;
  for (const std::string& name : known) {
    if (name.size() > kLongestName) continue;
    const std::string other = folded(name);
    const size_t edits = edit_distance(typed, other), shared = std::min(typed.size(), other.size());
    if (edits < fewest) {
      fewest = edits;
      nearest = name;
    }
    if (shared > most_shared && begins(typed, other)) {
      most_shared = shared;
      part = name;
    }
  }
  return nearest.empty() ? part : nearest;
}

std::string did_you_mean(std::string_view got, const std::vector<std::string>& known) {
  const std::string name = nearest_name(got, known);
  return name.empty() ? "" : "; did you mean \"" + name + "\"?";
}

}  // namespace plumb
