#include "ops/streams.h"

#include <algorithm>

namespace plumb::ops {
namespace {

bool records(const Context& context, std::initializer_list<Tensor> inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& t) { return context.records(t); });
}

}  // namespace

Tensor replicate(Context& context, const Tensor& x, int64_t n) {
  const int64_t rows = x.rows(), width = x.width();
  Tensor y = Tensor::empty(x.shape().with_width(n * width));
  ::plumb::replicate({.rows = rows, .n = n, .width = width, .from = x.f32(), .to = y.f32()});
  if (!context.records(x)) return y;
  y.set_requires_grad();
  context.tape->record([x = x.without_data(), n, rows, width, result = y.gradient()] {
    const float* dy = arrived(result);
    if (!dy) return;
    const GradientTarget dx = gradient_target(x);
    sum_streams({.rows = rows, .n = n, .width = width, .from = dy, .to = dx.data, .add = dx.add});
  });
  return y;
}

Tensor mean_of_streams(Context& context, const Tensor& x, int64_t n) {
  PLUMB_CHECK(x.width() % n == 0, "{} columns in {} streams", x.width(), n);
  const int64_t rows = x.rows(), width = x.width() / n;
  const float by = 1 / static_cast<float>(n);
  Tensor y = Tensor::empty(x.shape().with_width(width));
  sum_streams({.rows = rows, .n = n, .width = width, .from = x.f32(), .factor = by, .to = y.f32()});
  if (!context.records(x)) return y;
  y.set_requires_grad();
  context.tape->record([x = x.without_data(), n, rows, width, by, result = y.gradient()] {
    const float* dy = arrived(result);
    if (!dy) return;
    const GradientTarget dx = gradient_target(x);
    ::plumb::replicate(
        {.rows = rows, .n = n, .width = width, .from = dy, .factor = by, .to = dx.data, .add = dx.add});
  });
  return y;
}

StreamMaps stream_maps(Context& context, const Tensor& z, const MapWeights& w, int64_t n) {
  const int64_t count = n * (n + 2), rows = z.numel() / count;
  PLUMB_CHECK(rows * count == z.numel() && w.base.numel() == count && w.scale.numel() == 3,
              "maps of {} streams from {}, base {}, scale {}", n, z.shape().str(), w.base.shape().str(),
              w.scale.shape().str());
  StreamMaps maps{Tensor::empty({rows, n}), Tensor::empty({rows, n}), Tensor::empty({rows, n, n})};
  maps_forward({.kind = w.kind,
                .rows = rows,
                .n = n,
                .z = z.f32(),
                .base = w.base.f32(),
                .scale = w.scale.f32(),
                .pre = maps.pre.f32(),
                .post = maps.post.f32(),
                .res = maps.res.f32()});
  if (!records(context, {z, w.base, w.scale})) return maps;
  for (Tensor* t : {&maps.pre, &maps.post, &maps.res}) t->set_requires_grad();
  context.tape->record(
      [z, w, n, rows, pre = maps.pre.gradient(), post = maps.post.gradient(), res = maps.res.gradient()] {
        const float *dpre = arrived(pre), *dpost = arrived(post), *dres = arrived(res);
        if (!dpre && !dpost && !dres) return;
        const GradientTarget dz = gradient_target(z), dbase = gradient_target(w.base),
                             dscale = gradient_target(w.scale);
        maps_backward({.kind = w.kind,
                       .rows = rows,
                       .n = n,
                       .z = z.f32(),
                       .base = w.base.f32(),
                       .scale = w.scale.f32(),
                       .dpre = dpre,
                       .dpost = dpost,
                       .dres = dres,
                       .dz = dz.data,
                       .dbase = dbase.data,
                       .dscale = dscale.data,
                       .add_z = dz.add,
                       .add_base = dbase.add,
                       .add_scale = dscale.add});
      });
  return maps;
}

Tensor read_streams(Context& context, const Tensor& x, const StreamMaps& maps) {
  const int64_t n = maps.streams(), rows = x.rows(), width = x.width() / n;
  PLUMB_CHECK(maps.pre.rows() == rows && n * width == x.width(), "{} streams of {}", n, x.shape().str());
  Tensor h = Tensor::empty(x.shape().with_width(width));
  read_forward({.rows = rows, .n = n, .width = width, .x = x.f32(), .pre = maps.pre.f32(), .h = h.f32()});
  if (!records(context, {x, maps.pre})) return h;
  h.set_requires_grad();
  context.tape->record([x, pre = maps.pre, n, rows, width, result = h.gradient()] {
    const float* dh = arrived(result);
    if (!dh) return;
    const GradientTarget dx = gradient_target(x), dpre = gradient_target(pre);
    read_backward({.rows = rows,
                   .n = n,
                   .width = width,
                   .x = x.f32(),
                   .pre = pre.f32(),
                   .dh = dh,
                   .dx = dx.data,
                   .dpre = dpre.data,
                   .add_x = dx.add,
                   .add_pre = dpre.add});
  });
  return h;
}

Tensor write_streams(Context& context, const StreamWrite& w) {
  const int64_t n = w.maps.streams(), rows = w.x.rows(), width = w.branch.width();
  PLUMB_CHECK(w.maps.res.numel() == rows * n * n && n * width == w.x.width() && w.branch.rows() == rows,
              "{} streams of {} and a branch of {}", n, w.x.shape().str(), w.branch.shape().str());
  Tensor y = Tensor::empty(w.x.shape());
  write_forward({.rows = rows,
                 .n = n,
                 .width = width,
                 .x = w.x.f32(),
                 .branch = w.branch.f32(),
                 .post = w.maps.post.f32(),
                 .res = w.maps.res.f32(),
                 .gate = static_cast<float>(w.gate),
                 .y = y.f32()});
  if (!records(context, {w.x, w.branch, w.maps.post, w.maps.res})) return y;
  y.set_requires_grad();
  context.tape->record([w, n, rows, width, result = y.gradient()] {
    const float* dy = arrived(result);
    if (!dy) return;
    const GradientTarget dx = gradient_target(w.x), dbranch = gradient_target(w.branch),
                         dpost = gradient_target(w.maps.post), dres = gradient_target(w.maps.res);
    write_backward({.rows = rows,
                    .n = n,
                    .width = width,
                    .x = w.x.f32(),
                    .branch = w.branch.f32(),
                    .post = w.maps.post.f32(),
                    .res = w.maps.res.f32(),
                    .gate = static_cast<float>(w.gate),
                    .dy = dy,
                    .dx = dx.data,
                    .dbranch = dbranch.data,
                    .dpost = dpost.data,
                    .dres = dres.data,
                    .add_x = dx.add,
                    .add_branch = dbranch.add,
                    .add_post = dpost.add,
                    .add_res = dres.add});
  });
  return y;
}

}  // namespace plumb::ops
