#include "kernels/streams.h"

#include <cmath>

#include "base/check.h"
#include "kernels/row_blocks.h"
#include "kernels/simd_targets.h"
#include "kernels/sinkhorn.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/streams.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_math-inl.h"

#ifndef PLUMB_KERNELS_STREAMS_ONCE
#define PLUMB_KERNELS_STREAMS_ONCE
namespace plumb {

// y[i] = factor * sum_j m[i * out + j * in] x[j], or += with add; x and y are vectors of one width.
struct StreamMix {
  int64_t outputs = 0, inputs = 0, width = 0;
  const float* m = nullptr;
  int64_t out = 0, in = 0;  // strides of m
  float factor = 1;
  const float* x = nullptr;
  float* y = nullptr;
  bool add = false;
};

}  // namespace plumb
#endif

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {

void mix_row(const StreamMix& a) {
  for (int64_t i = 0; i < a.outputs; ++i) {
    float* y = a.y + i * a.width;
    for_lanes(a.width, [&](auto d, size_t c) HWY_ATTR {
      auto sum = hn::Zero(d);
      for (int64_t j = 0; j < a.inputs; ++j) {
        const auto m = hn::Set(d, a.factor * a.m[i * a.out + j * a.in]);
        sum = hn::MulAdd(m, hn::LoadU(d, a.x + j * a.width + c), sum);
      }
      store(d, sum, y + c, a.add);
    });
  }
}

float dot_row(int64_t n, const float* x, const float* y) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  auto sums = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) sums = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), sums);
  float sum = hn::GetLane(hn::SumOfLanes(d, sums));
  for (; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {

HWY_EXPORT(mix_row);
HWY_EXPORT(dot_row);

namespace {

constexpr int64_t kMostElements = kMostStreams * (kMostStreams + 2);
using Elements = std::array<double, kMostElements>;

void put(double value, float* to, bool add) {
  *to = static_cast<float>(add ? *to + value : value);
}

void mix(const StreamMix& a) {
  HWY_DYNAMIC_DISPATCH(mix_row)(a);
}
double dot_of(int64_t n, const float* x, const float* y) {
  return HWY_DYNAMIC_DISPATCH(dot_row)(n, x, y);
}

void check_streams(int64_t rows, int64_t n, int64_t width) {
  PLUMB_CHECK(rows >= 0 && n >= 1 && n <= kMostStreams && width > 0, "{} rows of {} streams of {}", rows, n,
              width);
}

template <class Body>
void for_rows(int64_t rows, int64_t row_floats, const Body& body) {
  for_blocks(rows, rows_per_block(row_floats), [&](int64_t, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) body(r);
  });
}

int64_t element_count(int64_t n) {
  return n * (n + 2);
}

// Which of pre, post and res element k of a row's map belongs to.
int part_of(int64_t n, int64_t k) {
  return k < n ? 0 : k < 2 * n ? 1 : 2;
}

// Where z has what makes element k.
int64_t place_in_z(MapKind kind, int64_t n, int64_t k) {
  if (kind == MapKind::doubly_stochastic) return k;
  if (k < 2 * n) return k % n * (n + 2) + k / n;
  const int64_t i = (k - 2 * n) / n, j = (k - 2 * n) % n;
  return j * (n + 2) + 2 + i;
}

// A row's map: t is what scale multiplies, a = scale t + base, and y the elements themselves.
struct RowMap {
  Elements t, a, y;
};

double sigmoid(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

template <class Args>
RowMap row_map(const Args& m, int64_t row) {
  const int64_t n = m.n, count = element_count(n);
  const float* z = m.z + row * count;
  RowMap r;
  for (int64_t k = 0; k < count; ++k) {
    const double given = z[place_in_z(m.kind, n, k)];
    r.t[k] = m.kind == MapKind::free ? std::tanh(given) : given;
    r.a[k] = m.scale[part_of(n, k)] * r.t[k] + m.base[k];
  }
  if (m.kind == MapKind::free) {
    r.y = r.a;
    return r;
  }
  for (int64_t k = 0; k < 2 * n; ++k) r.y[k] = (k < n ? 1 : 2) * sigmoid(r.a[k]);
  sinkhorn_forward(n, r.a.data() + 2 * n, r.y.data() + 2 * n);
  return r;
}

// Turns the gradient of a row's elements into that of their a.
void to_gradient_of_a(MapKind kind, int64_t n, const RowMap& r, Elements& d) {
  if (kind == MapKind::free) return;
  for (int64_t k = 0; k < 2 * n; ++k) d[k] *= r.y[k] * (1 - r.y[k] / (k < n ? 1 : 2));
  sinkhorn_backward(n, r.a.data() + 2 * n, d.data() + 2 * n, d.data() + 2 * n);
}

Elements arrived_at(const MapsBackward& a, int64_t row) {
  const int64_t n = a.n;
  Elements d{};
  for (int64_t k = 0; k < n; ++k) {
    if (a.dpre) d[k] = a.dpre[row * n + k];
    if (a.dpost) d[n + k] = a.dpost[row * n + k];
  }
  for (int64_t k = 0; a.dres && k < n * n; ++k) d[2 * n + k] = a.dres[row * n * n + k];
  return d;
}

}  // namespace

void maps_forward(const MapsForward& a) {
  check_streams(a.rows, a.n, 1);
  for_blocks(a.rows, kBlockRows, [&](int64_t, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const RowMap m = row_map(a, row);
      for (int64_t k = 0; k < a.n; ++k) {
        a.pre[row * a.n + k] = static_cast<float>(m.y[k]);
        a.post[row * a.n + k] = static_cast<float>(m.y[a.n + k]);
      }
      for (int64_t k = 0; k < a.n * a.n; ++k) {
        a.res[row * a.n * a.n + k] = static_cast<float>(m.y[2 * a.n + k]);
      }
    }
  });
}

void maps_backward(const MapsBackward& a) {
  check_streams(a.rows, a.n, 1);
  enum { kBase, kScale, kSums };
  const int64_t count = element_count(a.n);
  const ColumnSums sums(a.rows, count, kSums);
  for_blocks(a.rows, kBlockRows, [&](int64_t block, int64_t first, int64_t last) {
    Elements base{}, scale{};
    for (int64_t row = first; row < last; ++row) {
      const RowMap m = row_map(a, row);
      Elements d = arrived_at(a, row);
      to_gradient_of_a(a.kind, a.n, m, d);
      for (int64_t k = 0; k < count; ++k) {
        base[k] += d[k];
        scale[k] += d[k] * m.t[k];
        if (!a.dz) continue;
        const double slope = a.kind == MapKind::free ? 1 - m.t[k] * m.t[k] : 1;
        put(d[k] * a.scale[part_of(a.n, k)] * slope, a.dz + row * count + place_in_z(a.kind, a.n, k),
            a.add_z);
      }
    }
    for (int64_t k = 0; k < count; ++k) {
      sums.partial(block, kBase)[k] = static_cast<float>(base[k]);
      sums.partial(block, kScale)[k] = static_cast<float>(scale[k]);
    }
  });
  if (a.dbase) sums.finish(kBase, a.dbase, a.add_base);
  if (!a.dscale) return;
  std::array<float, kMostElements> by_element{};
  sums.finish(kScale, by_element.data(), false);
  std::array<double, 3> total{};
  for (int64_t k = 0; k < count; ++k) total[part_of(a.n, k)] += by_element[k];
  for (int part = 0; part < 3; ++part) put(total[part], a.dscale + part, a.add_scale);
}

void read_forward(const ReadForward& a) {
  check_streams(a.rows, a.n, a.width);
  for_rows(a.rows, a.n * a.width, [&](int64_t r) {
    mix({.outputs = 1,
         .inputs = a.n,
         .width = a.width,
         .m = a.pre + r * a.n,
         .in = 1,
         .x = a.x + r * a.n * a.width,
         .y = a.h + r * a.width});
  });
}

void read_backward(const ReadBackward& a) {
  check_streams(a.rows, a.n, a.width);
  for_rows(a.rows, a.n * a.width, [&](int64_t r) {
    const float* dh = a.dh + r * a.width;
    if (a.dx) {
      mix({.outputs = a.n,
           .inputs = 1,
           .width = a.width,
           .m = a.pre + r * a.n,
           .out = 1,
           .x = dh,
           .y = a.dx + r * a.n * a.width,
           .add = a.add_x});
    }
    for (int64_t j = 0; a.dpre && j < a.n; ++j) {
      put(dot_of(a.width, dh, a.x + (r * a.n + j) * a.width), a.dpre + r * a.n + j, a.add_pre);
    }
  });
}

void write_forward(const WriteForward& a) {
  check_streams(a.rows, a.n, a.width);
  for_rows(a.rows, 2 * a.n * a.width, [&](int64_t r) {
    StreamMix m{.outputs = a.n,
                .inputs = a.n,
                .width = a.width,
                .m = a.res + r * a.n * a.n,
                .out = a.n,
                .in = 1,
                .x = a.x + r * a.n * a.width,
                .y = a.y + r * a.n * a.width};
    mix(m);
    m.inputs = 1;
    m.m = a.post + r * a.n;
    m.out = 1;
    m.factor = a.gate;
    m.x = a.branch + r * a.width;
    m.add = true;
    mix(m);
  });
}

void write_backward(const WriteBackward& a) {
  check_streams(a.rows, a.n, a.width);
  const int64_t n = a.n;
  for_rows(a.rows, 3 * n * a.width, [&](int64_t r) {
    const float *dy = a.dy + r * n * a.width, *x = a.x + r * n * a.width, *f = a.branch + r * a.width;
    StreamMix m{.inputs = n, .width = a.width, .x = dy};
    if (a.dx) {  // resᵀ dy
      m.outputs = n;
      m.m = a.res + r * n * n;
      m.out = 1;
      m.in = n;
      m.y = a.dx + r * n * a.width;
      m.add = a.add_x;
      mix(m);
    }
    if (a.dbranch) {
      m.outputs = 1;
      m.m = a.post + r * n;
      m.in = 1;
      m.factor = a.gate;
      m.y = a.dbranch + r * a.width;
      m.add = a.add_branch;
      mix(m);
    }
    for (int64_t i = 0; i < n; ++i) {
      const float* dyi = dy + i * a.width;
      if (a.dpost) put(a.gate * dot_of(a.width, dyi, f), a.dpost + r * n + i, a.add_post);
      for (int64_t j = 0; a.dres && j < n; ++j) {
        put(dot_of(a.width, dyi, x + j * a.width), a.dres + (r * n + i) * n + j, a.add_res);
      }
    }
  });
}

void replicate(const Replicate& a) {
  check_streams(a.rows, a.n, a.width);
  const float one = 1;
  for_rows(a.rows, a.n * a.width, [&](int64_t r) {
    mix({.outputs = a.n,
         .inputs = 1,
         .width = a.width,
         .m = &one,
         .factor = a.factor,
         .x = a.from + r * a.width,
         .y = a.to + r * a.n * a.width,
         .add = a.add});
  });
}

void sum_streams(const Replicate& a) {
  check_streams(a.rows, a.n, a.width);
  const float one = 1;
  for_rows(a.rows, a.n * a.width, [&](int64_t r) {
    mix({.outputs = 1,
         .inputs = a.n,
         .width = a.width,
         .m = &one,
         .factor = a.factor,
         .x = a.from + r * a.n * a.width,
         .y = a.to + r * a.width,
         .add = a.add});
  });
}

}  // namespace plumb
#endif  // HWY_ONCE
