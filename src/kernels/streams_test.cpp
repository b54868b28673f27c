#include "kernels/streams.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cstring>

#include "kernels/reference.h"
#include "kernels/sinkhorn.h"
#include "kernels/test_arrays.h"

namespace plumb {
namespace {

using reference::Array;
using reference::Complex;

struct Sizes {
  int64_t rows, n, width;
};
constexpr Sizes kSizes[] = {{1, 1, 1}, {1, 2, 7}, {3, 4, 17}, {67, 3, 33}, {70, 8, 5}};

// The elements of each row's map, pre, post, res, straight from the formulas.
template <class T>
Array<T> maps_of(MapKind kind, const Sizes& s, const Array<T>& z, const Array<T>& base,
                 const Array<T>& scale) {
  const int64_t n = s.n, count = n * (n + 2);
  Array<T> out;
  for (int64_t r = 0; r < s.rows; ++r) {
    Array<T> pre(n), post(n), res(n * n);
    const T* at = z.data() + r * count;
    for (int64_t j = 0; j < n; ++j) {
      if (kind == MapKind::free) {
        pre[j] = scale[0] * std::tanh(at[j * (n + 2)]) + base[j];
        post[j] = scale[1] * std::tanh(at[j * (n + 2) + 1]) + base[n + j];
      } else {
        pre[j] = 1.0 / (1.0 + std::exp(-(scale[0] * at[j] + base[j])));
        post[j] = 2.0 / (1.0 + std::exp(-(scale[1] * at[n + j] + base[n + j])));
      }
      for (int64_t i = 0; i < n; ++i) {
        const int64_t k = 2 * n + i * n + j;
        res[i * n + j] = kind == MapKind::free ? scale[2] * std::tanh(at[j * (n + 2) + 2 + i]) + base[k]
                                               : std::exp(scale[2] * at[k] + base[k]);
      }
    }
    for (int64_t t = 0; kind == MapKind::doubly_stochastic && t < 2 * kSinkhornSteps; ++t) {
      for (int64_t a = 0; a < n; ++a) {
        const auto at_ab = [&](int64_t b) -> T& { return res[t % 2 == 0 ? b * n + a : a * n + b]; };
        T sum = 0;
        for (int64_t b = 0; b < n; ++b) sum += at_ab(b);
        for (int64_t b = 0; b < n; ++b) at_ab(b) /= sum;
      }
    }
    for (const auto* part : {&pre, &post, &res}) out.insert(out.end(), part->begin(), part->end());
  }
  return out;
}

// pre, post and res apart, each (N, ...), from the rows of all three.
struct Parts {
  std::vector<double> pre, post, res;
  Parts(const std::vector<double>& all, const Sizes& s) {
    const int64_t n = s.n, count = n * (n + 2);
    for (int64_t r = 0; r < s.rows; ++r) {
      const auto row = all.begin() + r * count;
      pre.insert(pre.end(), row, row + n);
      post.insert(post.end(), row + n, row + 2 * n);
      res.insert(res.end(), row + 2 * n, row + count);
    }
  }
};

template <class T>
T weighted(const Array<T>& y, const std::vector<double>& by) {
  T sum = 0;
  for (size_t i = 0; i < y.size(); ++i) sum += by[i] * y[i];
  return sum;
}

std::vector<double> times(std::vector<double> v, double by) {
  for (double& x : v) x *= by;
  return v;
}

// Sums over up to 70 rows of f32 results: relative to the largest.
constexpr double kSums = 5e-6, kPoint = 2e-6;

void check_maps(MapKind kind, const Sizes& s) {
  const int64_t n = s.n, count = n * (n + 2);
  const auto z = random_array(s.rows * count, 1), base = random_array(count, 2),
             d = random_array(s.rows * count, 3);
  const std::vector<double> scale{0.5, -1.25, 0.75};
  Floats in(z), b(base), by(scale), pre(s.rows * n), post(s.rows * n), res(s.rows * n * n);
  maps_forward({kind, s.rows, n, in.data(), b.data(), by.data(), pre.data(), post.data(), res.data()});
  const Parts want(maps_of(kind, s, z, base, scale), s), given(d, s);
  expect_close(pre, want.pre, kPoint, "pre");
  expect_close(post, want.post, kPoint, "post");
  expect_close(res, want.res, kPoint, "res");

  const auto loss = [&](const Array<Complex>& zz, const Array<Complex>& bb, const Array<Complex>& ss) {
    return weighted(maps_of(kind, s, zz, bb, ss), d);
  };
  const auto cz = reference::complex(z), cb = reference::complex(base), cs = reference::complex(scale);
  const auto want_b = reference::gradient(base, [&](const auto&x) { return loss(cz, x, cs); }),
             want_s = reference::gradient(scale, [&](const auto&x) { return loss(cz, cb, x); });
  // Rows do not meet in z: one perturbed row at a time would cost too much, so each element of the first and
  // last.
  std::vector<double> want_z(z.size());
  for (const int64_t r : {int64_t{0}, s.rows - 1}) {
    const Sizes one{1, n, s.width};
    const std::vector<double> row(z.begin() + r * count, z.begin() + (r + 1) * count),
        by_row(d.begin() + r * count, d.begin() + (r + 1) * count);
    const auto g = reference::gradient(
        row, [&](const auto& x) { return weighted(maps_of(kind, one, x, cb, cs), by_row); });
    std::copy(g.begin(), g.end(), want_z.begin() + r * count);
  }
  Floats dpre(given.pre), dpost(given.post), dres(given.res), dz(s.rows * count), db(count), ds(3);
  MapsBackward back{kind,        s.rows,       n,           in.data(), b.data(),  by.data(),
                    dpre.data(), dpost.data(), dres.data(), dz.data(), db.data(), ds.data()};
  for (const double how_often : {1.0, 2.0}) {
    maps_backward(back);
    expect_close(db, times(want_b, how_often), kSums, "dbase");
    expect_close(ds, times(want_s, how_often), kSums, "dscale");
    double largest = 1e-3;
    for (const double w : want_z) largest = std::max(largest, std::abs(w));
    for (const int64_t r : {int64_t{0}, s.rows - 1}) {
      for (int64_t k = r * count; k < (r + 1) * count; ++k) {
        ASSERT_NEAR(dz[k], how_often * want_z[k], kPoint * how_often * largest) << "dz " << k;
      }
    }
    back.add_z = back.add_base = back.add_scale = true;
  }
}

TEST(StreamMaps, FreeMapsAndTheirGradients) {
  for (const Sizes& s : kSizes) check_maps(MapKind::free, s);
}

TEST(StreamMaps, DoublyStochasticMapsAndTheirGradients) {
  for (const Sizes& s : kSizes) check_maps(MapKind::doubly_stochastic, s);
}

TEST(StreamMaps, WhatDidNotArriveIsZero) {
  const Sizes s{5, 3, 1};
  Floats z(random_array(75, 1)), base(random_array(15, 2)), scale(std::vector<double>{1, 1, 1}),
      dpost(random_array(15, 3)), dz(75), db(15), ds(3);
  maps_backward({.kind = MapKind::free,
                 .rows = s.rows,
                 .n = s.n,
                 .z = z.data(),
                 .base = base.data(),
                 .scale = scale.data(),
                 .dpost = dpost.data(),
                 .dz = dz.data(),
                 .dbase = db.data(),
                 .dscale = ds.data()});
  for (int k = 0; k < 15; ++k) EXPECT_EQ(db[k] != 0, k >= 3 && k < 6) << k;
  EXPECT_TRUE(ds[0] == 0 && ds[1] != 0 && ds[2] == 0);
}

// The row sums that a stack of these maps multiplies, as f32.
TEST(StreamMaps, RowsOfResSumToOne) {
  const int64_t rows = 300, n = 4, count = 24;
  Floats z(random_array(rows * count, 1, 3)), base(random_array(count, 2)),
      scale(std::vector<double>{1, 1, 1}), pre(rows * n), post(rows * n), res(rows * n * n);
  maps_forward({MapKind::doubly_stochastic, rows, n, z.data(), base.data(), scale.data(), pre.data(),
                post.data(), res.data()});
  for (int64_t r = 0; r < rows * n; ++r) {
    double sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += res[r * n + j];
    ASSERT_NEAR(sum, 1, 1e-6);
  }
}

template <class T>
Array<T> read_of(const Sizes& s, const Array<T>& x, const Array<T>& pre) {
  Array<T> h(s.rows * s.width);
  for (int64_t r = 0; r < s.rows; ++r) {
    for (int64_t j = 0; j < s.n; ++j) {
      for (int64_t c = 0; c < s.width; ++c)
        h[r * s.width + c] += pre[r * s.n + j] * x[(r * s.n + j) * s.width + c];
    }
  }
  return h;
}

TEST(Streams, ReadsAndItsGradient) {
  for_each_target([] {
    for (const Sizes& s : kSizes) {
      const auto x = random_array(s.rows * s.n * s.width, 1), pre = random_array(s.rows * s.n, 2),
                 d = random_array(s.rows * s.width, 3);
      Floats in(x), p(pre), h(s.rows * s.width), dh(d), dx(x.size()), dp(pre.size());
      read_forward({s.rows, s.n, s.width, in.data(), p.data(), h.data()});
      expect_close(h, read_of(s, x, pre), kPoint, "h");
      // Linear in each: the gradient is the formula with the roles changed.
      std::vector<double> want_x(x.size()), want_p(pre.size());
      for (int64_t r = 0; r < s.rows; ++r) {
        for (int64_t j = 0; j < s.n; ++j) {
          for (int64_t c = 0; c < s.width; ++c) {
            const int64_t at = (r * s.n + j) * s.width + c;
            want_x[at] = pre[r * s.n + j] * d[r * s.width + c];
            want_p[r * s.n + j] += x[at] * d[r * s.width + c];
          }
        }
      }
      ReadBackward back{s.rows, s.n, s.width, in.data(), p.data(), dh.data(), dx.data(), dp.data()};
      for (const double how_often : {1.0, 2.0}) {
        read_backward(back);
        expect_close(dx, times(want_x, how_often), kPoint, "dx");
        expect_close(dp, times(want_p, how_often), kSums, "dpre");
        back.add_x = back.add_pre = true;
      }
    }
  });
}

TEST(Streams, WritesAndItsGradient) {
  for_each_target([] {
    for (const Sizes& s : kSizes) {
      const int64_t n = s.n;
      const auto x = random_array(s.rows * n * s.width, 1), f = random_array(s.rows * s.width, 2),
                 post = random_array(s.rows * n, 3), res = random_array(s.rows * n * n, 4),
                 d = random_array(s.rows * n * s.width, 5);
      const double g = 0.75;
      std::vector<double> want(x.size()), want_x(x.size()), want_f(f.size()), want_post(post.size()),
          want_res(res.size());
      for (int64_t r = 0; r < s.rows; ++r) {
        for (int64_t i = 0; i < n; ++i) {
          for (int64_t c = 0; c < s.width; ++c) {
            const int64_t y = (r * n + i) * s.width + c, b = r * s.width + c;
            want[y] += g * post[r * n + i] * f[b];
            want_f[b] += g * post[r * n + i] * d[y];
            want_post[r * n + i] += g * f[b] * d[y];
            for (int64_t j = 0; j < n; ++j) {
              const int64_t k = (r * n + i) * n + j, from = (r * n + j) * s.width + c;
              want[y] += res[k] * x[from];
              want_x[from] += res[k] * d[y];
              want_res[k] += d[y] * x[from];
            }
          }
        }
      }
      Floats in(x), branch(f), p(post), m(res), y(x.size()), dy(d), dx(x.size()), df(f.size()),
          dp(post.size()), dm(res.size());
      write_forward({s.rows, n, s.width, in.data(), branch.data(), p.data(), m.data(), 0.75f, y.data()});
      expect_close(y, want, kPoint, "y");
      WriteBackward back{s.rows, n,         s.width,   in.data(), branch.data(), p.data(), m.data(),
                         0.75f,  dy.data(), dx.data(), df.data(), dp.data(),     dm.data()};
      for (const double how_often : {1.0, 2.0}) {
        write_backward(back);
        expect_close(dx, times(want_x, how_often), kPoint, "dx");
        expect_close(df, times(want_f, how_often), kPoint, "dbranch");
        expect_close(dp, times(want_post, how_often), kSums, "dpost");
        expect_close(dm, times(want_res, how_often), kSums, "dres");
        back.add_x = back.add_branch = back.add_post = back.add_res = true;
      }
    }
  });
}

TEST(Streams, ReplicateAndSum) {
  for (const Sizes& s : kSizes) {
    const auto one = random_array(s.rows * s.width, 1), all = random_array(s.rows * s.n * s.width, 2);
    std::vector<double> want_all(all.size()), want_one(one.size());
    for (size_t i = 0; i < all.size(); ++i) {
      const size_t k = i / (s.n * s.width) * s.width + i % s.width;
      want_all[i] = 0.5 * one[k];
      want_one[k] += 0.25 * all[i];
    }
    Floats a(one), b(all), to_all(all.size()), to_one(one.size());
    for (const bool add : {false, true}) {
      replicate({s.rows, s.n, s.width, a.data(), 0.5f, to_all.data(), add});
      sum_streams({s.rows, s.n, s.width, b.data(), 0.25f, to_one.data(), add});
      expect_close(to_all, times(want_all, add ? 2 : 1), kPoint, "streams");
      expect_close(to_one, times(want_one, add ? 2 : 1), kPoint, "sum");
    }
  }
}

// Sums of the parameters' gradients are over fixed blocks of rows.
TEST(Streams, AnyNumberOfThreadsGivesTheSameBits) {
  const int64_t rows = 1025, n = 4, count = 24;
  const int threads = omp_get_max_threads();
  std::vector<float> first;
  for (const int t : {1, 2, 3, 5}) {
    omp_set_num_threads(t);
    Floats z(random_array(rows * count, 1)), base(random_array(count, 2)), scale(random_array(3, 3)),
        dpre(random_array(rows * n, 4)), dpost(random_array(rows * n, 5)),
        dres(random_array(rows * n * n, 6)), out(rows * count + count + 3);
    maps_backward({MapKind::doubly_stochastic, rows, n, z.data(), base.data(), scale.data(), dpre.data(),
                   dpost.data(), dres.data(), out.data(), out.data() + rows * count,
                   out.data() + rows * count + count});
    const std::vector<float> bits(out.data(), out.data() + out.size());
    if (first.empty()) first = bits;
    EXPECT_EQ(0, std::memcmp(first.data(), bits.data(), bits.size() * sizeof(float))) << t << " threads";
  }
  omp_set_num_threads(threads);
}

}  // namespace
}  // namespace plumb
