// Look-ups of rows by id, and rows gathered, scattered, split and joined.
#pragma once

#include <vector>

#include "ops/context.h"

namespace plumb::ops {

struct Lookup {
  Tensor table;  // (V, C)
  Tensor ids;    // (B, T) i32, each in [0, V)
  double scale = 1;
  int64_t untrained_row = -1;  // a row that look-ups give no gradient (padding), -1: none
};

// The sum of the look-ups, (B, T, C). At least one.
Tensor embedding(Context& context, const std::vector<Lookup>& lookups);

// y[r] = x[index[r]], (R, C) from (N, C). `index` (R) i32 names no row twice.
Tensor gather_rows(Context& context, const Tensor& x, const Tensor& index);
// The reverse: rows of (N, C) that no index names are 0.
Tensor scatter_rows(Context& context, const Tensor& x, const Tensor& index, int64_t rows);

// Consecutive rows of x as tensors that share its memory, and back as one tensor. offsets: (E + 1).
std::vector<Tensor> split_rows(Context& context, const Tensor& x, const std::vector<int64_t>& offsets);
Tensor join_rows(Context& context, const std::vector<Tensor>& parts);

// Columns of x (..., C) as separate tensors of the given widths, which sum to C.
std::vector<Tensor> split_columns(Context& context, const Tensor& x, const std::vector<int64_t>& widths);

// a + b, the same shape.
Tensor add(Context& context, const Tensor& a, const Tensor& b);

}  // namespace plumb::ops
