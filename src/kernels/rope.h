// Rotary position embedding: pairs of a head's dims turned by an angle that grows with the position.
// Su, Lu, Pan, Murtadha, Wen, Liu, "RoFormer" (2021), eq. 34. Angles are computed in f64 and their cosines
// stored in f32, so that late positions are right whatever the model's dtype. Threads: rows are split over
// OpenMP threads.
#pragma once

#include <cstdint>
#include <vector>

namespace plumb {

// base^(-2 i / dims) for the pairs i of so many dims; an odd one makes a pair with the next.
std::vector<double> rope_frequencies(double base, int64_t dims);

// cos and sin (positions, frequencies): of position * frequency, times `attention_factor` (1, or YaRN's).
struct RopeTable {
  std::vector<float> cos, sin;
};
RopeTable rope_table(const std::vector<double>& frequencies, int64_t positions,
                     double attention_factor = 1.0);

// Turns x in place. The element (n, h, d) is at x + n * row_stride + h * head_dim + d.
struct Rope {
  float* x = nullptr;
  int64_t rows = 0;        // N = B * T
  int64_t row_stride = 0;  // at least heads * head_dim
  int64_t heads = 0, head_dim = 0;
  int64_t rotary_dim = 0;      // even, at most head_dim; dims beyond it are left alone
  bool interleaved = false;    // pairs (2i, 2i+1); otherwise (i, i + rotary_dim / 2)
  const float* cos = nullptr;  // (P, rotary_dim / 2), as rope_table() makes them
  const float* sin = nullptr;
  const int32_t* positions = nullptr;  // (N): the row of the table for each row of x
  bool inverse = false;                // the transpose: the backward, given dx
};

void rope(const Rope& r);

}  // namespace plumb
