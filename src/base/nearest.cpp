#include "base/nearest.h"

#include <algorithm>
#include <vector>

namespace plumb {

int edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table: two back, one back, current.
  std::vector<int> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::string nearest_name(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  int least = -1;
  for (const std::string& candidate : candidates) {
    const int distance = edit_distance(word, candidate);
    const int most = std::max<int>(1, static_cast<int>(std::max(word.size(), candidate.size()) / 3));
    if (distance <= most && (least < 0 || distance < least)) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string nearest = nearest_name(word, candidates);
  return nearest.empty() ? "" : ", did you mean '" + nearest + "'?";
}

}  // namespace plumb
