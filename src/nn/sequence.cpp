#include "nn/sequence.h"

#include <algorithm>

namespace plumb {

Sequence Sequence::from(int64_t batch, int64_t length, const Tensor& mask, const Tensor& before,
                        const Tensor& starts) {
  Sequence s{batch, length, mask, starts, Tensor::empty({batch, length}, DType::i32)};
  if (mask.defined()) {
    PLUMB_CHECK(mask.shape() == Shape({batch, length}), "mask {}", mask.shape().str());
    const uint8_t* m = mask.data<uint8_t>();
    if (std::all_of(m, m + mask.numel(), [](uint8_t v) { return v != 0; })) s.mask = {};
  }
  for (int64_t b = 0; b < batch; ++b) {
    int32_t next = before.defined() ? before.data<int32_t>()[b] : 0;
    for (int64_t t = 0; t < length; ++t) {
      if (starts.defined() && starts.data<int32_t>()[b * length + t] == t) next = 0;
      const bool real = !s.mask.defined() || s.mask.data<uint8_t>()[b * length + t] != 0;
      s.positions.data<int32_t>()[b * length + t] = real ? next++ : 0;
    }
  }
  return s;
}

int64_t Sequence::longest() const {
  const int32_t* p = positions.data<int32_t>();
  return positions.numel() == 0 ? 0 : 1 + int64_t{*std::max_element(p, p + positions.numel())};
}

}  // namespace plumb
