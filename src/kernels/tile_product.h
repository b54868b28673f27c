// Products of the tiles that attention is made of: f32, by the calling thread alone, and without copies of
// its operands, so that what lies beyond a causal diagonal or a window costs nothing.
#pragma once

#include <cstdint>

#include "kernels/interval.h"

namespace plumb {

// C (m, n) = alpha · A (m, k) · B (k, n), or that added to C. A (i, l) is a[i * a_row + l * a_col]: with the
// two exchanged the same memory is read as its transpose. B and C are row-major. A sum's order depends on its
// own terms only, not on the rows and columns beside it.
struct TileProduct {
  int64_t m = 0, n = 0, k = 0;  // any may be 0
  const float* a = nullptr;
  int64_t a_row = 0, a_col = 0;
  const float* b = nullptr;
  int64_t ldb = 0;
  float* c = nullptr;
  int64_t ldc = 0;
  float alpha = 1.0f;
  bool add = false;
  // What is needed, by row of C, or null for everything:
  const Interval* columns = nullptr;  // (m): these columns; whether others are written is left open
  const Interval* terms = nullptr;    // (m): the l that row i sums; the numbers that belong to others do not
                                      // get into it, NaN or not. A row of no terms is a sum of nothing.
};

void tile_product(const TileProduct& p);

// out (width, rows), its rows `out_ld` apart, = the transpose of x (rows, width), its rows `ld` apart.
struct TileTranspose {
  int64_t rows = 0, width = 0;
  const float* x = nullptr;
  int64_t ld = 0;
  float* out = nullptr;
  int64_t out_ld = 0;
};

void tile_transpose(const TileTranspose& t);

}  // namespace plumb
