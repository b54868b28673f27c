#include <algorithm>

#include "bench/bench.h"

namespace plumb::bench {

Round median_round(int rounds, const std::function<double()>& roof, const std::function<double()>& rate) {
  std::vector<Round> all;
  double before = roof();
  for (int i = 0; i < rounds; ++i) {
    const double reached = rate(), after = roof();
    all.push_back({.rate = reached, .roof = (before + after) / 2});
    before = after;
  }
  const auto middle = all.begin() + rounds / 2;
  std::nth_element(all.begin(), middle, all.end(),
                   [](const Round& a, const Round& b) { return a.share() < b.share(); });
  return *middle;
}

}  // namespace plumb::bench
