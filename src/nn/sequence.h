// What a pass over a batch knows of its tokens.
#pragma once

#include "tensor/tensor.h"

namespace plumb {

struct Sequence {
  int64_t batch = 0, length = 0;  // B, T
  Tensor mask;                    // (B, T) u8: 1 real, 0 padding; undefined: all real
  Tensor positions;  // (B, T) i32: of each real token among the real ones of its row, 0 at padding

  // Positions come from the mask, so that padding on either side changes nothing. `before` (B) i32: real
  // tokens that came earlier, in a cache; undefined: none. Throws nothing.
  static Sequence from(int64_t batch, int64_t length, const Tensor& mask, const Tensor& before = {});
  bool all_real() const { return !mask.defined(); }
};

}  // namespace plumb
