#include "nn/sequence.h"

#include <algorithm>
#include <vector>

namespace plumb {

Sequence Sequence::from(int64_t batch, int64_t length, const Tensor& mask, const Tensor& before,
                        const Tensor& starts) {
  Sequence s{batch, length, mask, starts, Tensor::empty({batch, length}, DType::i32)};
  if (mask.defined()) {
    PLUMB_CHECK(mask.shape() == Shape({batch, length}), "mask {}", mask.shape().str());
    const uint8_t* m = mask.data<uint8_t>();
    if (std::all_of(m, m + mask.numel(), [](uint8_t v) { return v != 0; })) s.mask = {};
  }
  int32_t longest = 1;
  std::vector<int32_t> behind(batch);  // the position after the last real token's
  for (int64_t b = 0; b < batch; ++b) {
    int32_t next = before.defined() ? before.data<int32_t>()[b] : 0;
    for (int64_t t = 0; t < length; ++t) {
      if (starts.defined() && starts.data<int32_t>()[b * length + t] == t) next = 0;
      const bool real = !s.mask.defined() || s.mask.data<uint8_t>()[b * length + t] != 0;
      s.positions.data<int32_t>()[b * length + t] = real ? next++ : 0;
      longest = std::max(longest, next);
    }
    behind[b] = next;
  }
  for (int64_t b = 0; b < batch && s.mask.defined(); ++b) {
    const uint8_t* m = s.mask.data<uint8_t>() + b * length;
    int64_t first = length;
    while (first > 0 && m[first - 1] == 0) --first;
    for (int64_t t = first; first > 0 && t < length; ++t)
      s.positions.data<int32_t>()[b * length + t] = std::min(behind[b]++, longest - 1);
  }
  return s;
}

int64_t Sequence::longest() const {
  const int32_t* p = positions.data<int32_t>();
  return positions.numel() == 0 ? 0 : 1 + int64_t{*std::max_element(p, p + positions.numel())};
}

}  // namespace plumb
