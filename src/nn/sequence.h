// What a pass over a batch knows of its tokens.
#pragma once

#include "tensor/tensor.h"

namespace plumb {

struct Sequence {
  int64_t batch = 0, length = 0;  // B, T
  Tensor mask;                    // (B, T) u8: 1 real, 0 padding; undefined: all real
  // Of a row that several texts are packed into, which do not see each other: (B, T) i32, where the text of
  // each position begins. Undefined: a row is one text.
  Tensor starts;
  // (B, T) i32: of each real token among the real ones of its text; 0 at padding before them. Padding behind
  // them goes on counting, at most to the last position of the longest text.
  Tensor positions;

  // Positions come from the mask, so that padding on either side changes nothing. `before` (B) i32: real
  // tokens that came earlier, in a cache; undefined: none. They restart with each text.
  static Sequence from(int64_t batch, int64_t length, const Tensor& mask, const Tensor& before = {},
                       const Tensor& starts = {});
  // Tokens of the longest text, those of a cache included.
  int64_t longest() const;
  bool all_real() const { return !mask.defined(); }
};

}  // namespace plumb
