// Vectors of a matrix brought to length 1, after an update. Lengths are f64 sums. Threads: OpenMP inside; no
// result depends on their number, bit for bit.
#pragma once

#include <cstdint>

namespace plumb {

struct UnitVectors {
  int64_t rows = 0, width = 0;
  bool by_column = false;         // the vectors are columns, not rows
  float* x = nullptr;             // (rows, width); a vector of zeros stays one
  const float* update = nullptr;  // (rows, width) or null: what x moved by before
};
// The sum of squares of update plus what x moved by here: of the whole move.
double make_unit(const UnitVectors& a);

}  // namespace plumb
