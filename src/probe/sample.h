// Which rows stand for a tensor where measuring all of them would cost too much: fixed by the counts alone.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace plumb {

// min(count, most) of 0 .. count - 1, rising: one of each of as many equal parts, at a place within its part
// that walks on by the golden ratio, so that no period of the data (a row's length) is met again and again.
inline std::vector<int64_t> sampled_rows(int64_t count, int64_t most) {
  const int64_t taken = std::min(count, most);
  std::vector<int64_t> rows;
  rows.reserve(static_cast<size_t>(taken));
  for (int64_t i = 0; i < taken; ++i) {
    const int64_t first = i * count / taken, end = (i + 1) * count / taken;
    double whole = 0;
    const double share = std::modf(static_cast<double>(i) * 0.6180339887498949, &whole);
    rows.push_back(first + static_cast<int64_t>(share * static_cast<double>(end - first)));
  }
  return rows;
}

}  // namespace plumb
