#include "ops/embedding.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/embedding.h"

namespace plumb::ops {
namespace {

void lookup_backward(const Lookup& l, const float* dy) {
  const GradientTarget dtable = gradient_target(l.table);
  if (!dtable.data) return;
  // What an untrained row held before (from a tied head) stays.
  const int64_t width = l.table.width();
  float* kept = l.untrained_row < 0 ? nullptr : dtable.data + l.untrained_row * width;
  std::vector<float> before(kept ? width : 0, 0.0f);
  if (kept && dtable.add) before.assign(kept, kept + width);
  embedding_backward({.rows = l.ids.numel(),
                      .vocabulary = l.table.size(0),
                      .width = width,
                      .ids = l.ids.data<int32_t>(),
                      .dy = dy,
                      .scale = static_cast<float>(l.scale),
                      .dtable = dtable.data,
                      .add = dtable.add});
  std::copy(before.begin(), before.end(), kept);
}

void copy_columns(int64_t rows, int64_t width, const float* x, int64_t x_stride, float* y, int64_t y_stride,
                  bool accumulate) {
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = x + r * x_stride;
    float* to = y + r * y_stride;
    if (accumulate) {
      for (int64_t i = 0; i < width; ++i) to[i] += from[i];
    } else {
      std::copy(from, from + width, to);
    }
  }
}

}  // namespace

Tensor embedding(Context& context, const std::vector<Lookup>& lookups) {
  PLUMB_CHECK(!lookups.empty());
  const Shape& ids = lookups[0].ids.shape();
  Tensor y = Tensor::empty({ids[0], ids[1], lookups[0].table.width()});
  bool record = false;
  for (size_t i = 0; i < lookups.size(); ++i) {
    const Lookup& l = lookups[i];
    PLUMB_CHECK(l.ids.shape() == ids && l.table.width() == y.width());
    embedding_forward({.rows = l.ids.numel(),
                       .vocabulary = l.table.size(0),
                       .width = y.width(),
                       .ids = l.ids.data<int32_t>(),
                       .table = l.table.raw(),
                       .dtype = l.table.dtype(),
                       .scale = static_cast<float>(l.scale),
                       .y = y.f32(),
                       .add = i > 0});
    record = record || context.records(l.table);
  }
  if (!record) return y;
  y.set_requires_grad();
  context.tape->record([lookups, result = y.gradient()] {
    const float* dy = arrived(result);
    if (!dy) return;
    for (const Lookup& l : lookups) lookup_backward(l, dy);
  });
  return y;
}

Tensor gather_rows(Context& context, const Tensor& x, const Tensor& index) {
  Tensor y = Tensor::empty({index.numel(), x.width()});
  ::plumb::gather_rows({.rows = index.numel(),
                        .width = x.width(),
                        .index = index.data<int32_t>(),
                        .x = x.f32(),
                        .y = y.f32()});
  if (!context.records(x)) return y;
  y.set_requires_grad();
  context.tape->record([x = x.without_data(), index, result = y.gradient()] {
    const float* dy = arrived(result);
    if (!dy) return;
    const GradientTarget dx = gradient_target(x);
    if (!dx.add) std::fill_n(dx.data, x.numel(), 0.0f);
    ::plumb::scatter_rows({.rows = index.numel(),
                           .width = x.width(),
                           .index = index.data<int32_t>(),
                           .x = dy,
                           .y = dx.data,
                           .add = true});
  });
  return y;
}

Tensor scatter_rows(Context& context, const Tensor& x, const Tensor& index, int64_t rows) {
  Tensor y = Tensor::zeros({rows, x.width()});
  ::plumb::scatter_rows({.rows = index.numel(),
                         .width = x.width(),
                         .index = index.data<int32_t>(),
                         .x = x.f32(),
                         .y = y.f32()});
  if (!context.records(x)) return y;
  y.set_requires_grad();
  context.tape->record([x = x.without_data(), index, result = y.gradient()] {
    const float* dy = arrived(result);
    if (!dy) return;
    const GradientTarget dx = gradient_target(x);
    ::plumb::gather_rows({.rows = index.numel(),
                          .width = x.width(),
                          .index = index.data<int32_t>(),
                          .x = dy,
                          .y = dx.data,
                          .add = dx.add});
  });
  return y;
}

std::vector<Tensor> split_rows(Context& context, const Tensor& x, const std::vector<int64_t>& offsets) {
  std::vector<Tensor> parts;
  for (size_t e = 0; e + 1 < offsets.size(); ++e) {
    parts.push_back(x.rows_view(offsets[e], offsets[e + 1] - offsets[e]));
  }
  if (!context.records(x)) return parts;
  for (Tensor& part : parts) part.set_requires_grad();
  context.tape->record([x = x.without_data(), offsets, parts] {
    const GradientTarget dx = gradient_target(x);
    for (size_t e = 0; e < parts.size(); ++e) {
      float* to = dx.data + offsets[e] * x.width();
      const float* from = arrived(parts[e].gradient());
      const int64_t n = parts[e].numel();
      if (from) {
        add_gradient({to, dx.add}, n, from);
      } else if (!dx.add) {
        std::fill_n(to, n, 0.0f);
      }
    }
  });
  return parts;
}

Tensor join_rows(Context& context, const std::vector<Tensor>& parts) {
  PLUMB_CHECK(!parts.empty());
  int64_t rows = 0;
  bool record = false;
  for (const Tensor& part : parts) {
    rows += part.rows();
    record = record || context.records(part);
  }
  Tensor y = Tensor::empty({rows, parts[0].width()});
  float* to = y.f32();
  for (const Tensor& part : parts) to = std::copy_n(part.f32(), part.numel(), to);
  if (!record) return y;
  y.set_requires_grad();
  std::vector<Tensor> shells;
  shells.reserve(parts.size());
  for (const Tensor& part : parts) shells.push_back(part.without_data());
  context.tape->record([shells, result = y.gradient()] {
    const float* dy = arrived(result);
    if (!dy) return;
    for (const Tensor& part : shells) {
      add_gradient(gradient_target(part), part.numel(), dy);
      dy += part.numel();
    }
  });
  return y;
}

std::vector<Tensor> split_columns(Context& context, const Tensor& x, const std::vector<int64_t>& widths) {
  std::vector<Tensor> parts;
  int64_t first = 0;
  for (const int64_t width : widths) {
    auto dims = x.shape().dims();
    dims.back() = width;
    parts.push_back(Tensor::empty(Shape(dims)));
    copy_columns(x.rows(), width, x.f32() + first, x.width(), parts.back().f32(), width, false);
    first += width;
  }
  PLUMB_CHECK(first == x.width(), "{} columns of {}", first, x.width());
  if (!context.records(x)) return parts;
  std::vector<Tensor> shells;
  for (Tensor& part : parts) {
    part.set_requires_grad();
    shells.push_back(part.without_data());
  }
  context.tape->record([x = x.without_data(), shells] {
    const GradientTarget dx = gradient_target(x);
    if (!dx.add) std::fill_n(dx.data, x.numel(), 0.0f);
    int64_t column = 0;
    for (const Tensor& part : shells) {
      if (const float* d = arrived(part.gradient())) {
        copy_columns(x.rows(), part.width(), d, part.width(), dx.data + column, x.width(), true);
      }
      column += part.width();
    }
  });
  return parts;
}

Tensor add(Context& context, const Tensor& a, const Tensor& b) {
  PLUMB_CHECK(a.shape() == b.shape(), "{} + {}", a.shape().str(), b.shape().str());
  Tensor y = Tensor::empty(a.shape());
  linear_combination(a.numel(), 1.0f, a.f32(), 1.0f, b.f32(), y.f32());
  if (!context.records(a) && !context.records(b)) return y;
  y.set_requires_grad();
  context.tape->record([a = a.without_data(), b = b.without_data(), result = y.gradient()] {
    const float* dy = arrived(result);
    if (!dy) return;
    for (const Tensor& t : {a, b}) add_gradient(gradient_target(t), t.numel(), dy);
  });
  return y;
}

}  // namespace plumb::ops
