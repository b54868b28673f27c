// Lengths of the vectors of a matrix, and vectors brought to length 1, after an update. Lengths are f64 sums.
// Threads: OpenMP inside; no result depends on their number, bit for bit.
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

// y = 1 / the length of each row or column; 0 of a vector of zeros.
void inverse_lengths(int64_t rows, int64_t width, bool by_column, const float* x, float* y);

}  // namespace plumb
