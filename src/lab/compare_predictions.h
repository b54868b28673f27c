// What a place's value would be with one mistake made before it: the known kinds of fault, from a model's
// weights and what it observed.
#pragma once

#include <string>
#include <vector>

#include "lab/compare_kinds.h"

namespace plumb {

struct Prediction {
  std::string what;  // the norm, the matrix, the first position, or what the mask shows
  Tensor value;      // (1, T, C), or of positions the rows first .. last - 1 (N, C)
  int64_t first = 0, last = 0;
};

// Each is empty where the fault cannot be at this place.
std::vector<Prediction> without_norm(const Predictor& p, const Kept& place);
std::vector<Prediction> without_residual(const Predictor& p, const Kept& place);
std::vector<Prediction> with_transposed_matrix(const Predictor& p, const Kept& place);
std::vector<Prediction> with_moved_positions(const Predictor& p, const Kept& place);
std::vector<Prediction> with_other_pairing(const Predictor& p,
                                           const Kept& place);  // of dims, in rotary positions
// `what` is "sees ... more" or "sees ... fewer".
std::vector<Prediction> with_other_mask(const Predictor& p, const Kept& place);

// What a table of positions adds to a stack's embedding (1, T, C); undefined at any other place.
Tensor positions_in(const Predictor& p, const Kept& place);

// Width of a head where the place holds heads side by side; 0 elsewhere.
int64_t head_dim_of(const Predictor& p, const Kept& place);

// W.flat of its transposed: what a file holds whose matrix was turned and its shape left. In place of (rows,
// width).
Tensor transposed_values(const Tensor& w);

}  // namespace plumb
