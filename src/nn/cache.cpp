#include "nn/cache.h"

#include <algorithm>

namespace plumb {
namespace {

// The same (B, slots, W) with room for more, first `used` slots copied.
Tensor grown(const Tensor& t, int64_t slots, int64_t used) {
  const int64_t batch = t.size(0), row = t.shape().rank() == 3 ? t.size(2) : 1;
  const size_t bytes = row * dtype_size(t.dtype());
  Tensor n = t.shape().rank() == 3 ? Tensor::empty({batch, slots, row}, t.dtype())
                                   : Tensor::zeros({batch, slots}, t.dtype());
  for (int64_t b = 0; b < batch; ++b) {
    std::memcpy(static_cast<char*>(n.raw()) + b * slots * bytes,
                static_cast<const char*>(t.raw()) + b * t.size(1) * bytes, used * bytes);
  }
  return n;
}

Tensor reordered(const Tensor& t, const std::vector<int64_t>& source) {
  if (!t.defined()) return t;
  auto dims = t.shape().dims();
  const size_t row = dims[0] == 0 ? 0 : t.bytes() / dims[0];
  dims[0] = static_cast<int64_t>(source.size());
  Tensor n = Tensor::empty(Shape(dims), t.dtype());
  for (size_t b = 0; b < source.size(); ++b) {
    std::memcpy(static_cast<char*>(n.raw()) + b * row, static_cast<const char*>(t.raw()) + source[b] * row,
                row);
  }
  return n;
}

}  // namespace

Cache::Cache(int64_t batch_size, int64_t layer_count, int64_t slots)
    : batch(batch_size),
      capacity(slots),
      mask(Tensor::zeros({batch_size, slots}, DType::u8)),
      positions(Tensor::zeros({batch_size}, DType::i32)),
      layers(layer_count) {}

void Cache::reserve(int64_t slots) {
  if (slots <= capacity) return;
  slots = std::max(slots, capacity * 2);
  for (LayerCache& layer : layers) {
    if (!layer.k.defined()) continue;
    layer.k = grown(layer.k, slots, length);
    layer.v = grown(layer.v, slots, length);
  }
  mask = grown(mask, slots, length);
  if (ids.defined()) ids = grown(ids, slots, length);
  capacity = slots;
}

void Cache::reorder(const std::vector<int64_t>& source) {
  for (LayerCache& layer : layers) {
    for (Tensor* t : {&layer.k, &layer.v, &layer.cross_k, &layer.cross_v}) *t = reordered(*t, source);
  }
  for (Tensor* t : {&mask, &positions, &ids, &memory, &memory_mask}) *t = reordered(*t, source);
  batch = static_cast<int64_t>(source.size());
}

void Cache::truncate(int64_t slots) {
  PLUMB_CHECK(slots <= length, "{} of {} slots", slots, length);
  for (int64_t b = 0; b < batch; ++b) {
    const uint8_t* row = mask.data<uint8_t>() + b * capacity;
    positions.data<int32_t>()[b] =
        static_cast<int32_t>(std::count_if(row, row + slots, [](uint8_t m) { return m != 0; }));
  }
  length = slots;
}

size_t Cache::bytes() const {
  size_t n = 0;
  for (const LayerCache& layer : layers) {
    for (const Tensor* t : {&layer.k, &layer.v, &layer.cross_k, &layer.cross_v})
      n += t->defined() ? t->bytes() : 0;
  }
  return n;
}

}  // namespace plumb
