// Rows of a table by token or position id, and the fixed sinusoidal tables (Vaswani et al., arXiv
// 1706.03762). Threads: OpenMP inside; no result depends on their number, bit for bit. Ids are in [0, V):
// callers validate.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace plumb {

// y[r] = scale * table[ids[r]], or += with add (positions on top of tokens).
struct EmbeddingForward {
  int64_t rows = 0, vocabulary = 0, width = 0;
  const int32_t* ids = nullptr;  // (N)
  const void* table = nullptr;   // (V, C)
  DType dtype = DType::f32;      // of the table: f32, bf16 or f16
  float scale = 1;
  float* y = nullptr;  // (N, C)
  bool add = false;
};
void embedding_forward(const EmbeddingForward& a);

// dtable[ids[r]] += scale * dy[r]. Without add, dtable (V, C) f32 is first set to 0 throughout.
struct EmbeddingBackward {
  int64_t rows = 0, vocabulary = 0, width = 0;
  const int32_t* ids = nullptr;
  const float* dy = nullptr;
  float scale = 1;
  float* dtable = nullptr;
  bool add = false;
};
void embedding_backward(const EmbeddingBackward& a);

enum class Sinusoid {
  interleaved,  // sin, cos, sin, cos, ... (the 2017 paper)
  halves,       // all sines, then all cosines (Marian, Pegasus)
};
// table (positions, C): pair i of position p is sin and cos of p / 10000^(2 i / C), worked out in f64.
void sinusoidal_table(Sinusoid kind, int64_t positions, int64_t width, float* table);

}  // namespace plumb
