// A run of indices.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plumb {

struct Interval {
  int64_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
  int64_t size() const { return end - begin; }
};

inline Interval intersection(Interval a, Interval b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

// The least one that holds all of them.
inline Interval hull(const Interval* all, int64_t n) {
  Interval hull;
  for (int64_t i = 0; i < n; ++i) {
    if (all[i].empty()) continue;
    hull =
        hull.empty() ? all[i] : Interval{std::min(hull.begin, all[i].begin), std::max(hull.end, all[i].end)};
  }
  return hull;
}

}  // namespace plumb
