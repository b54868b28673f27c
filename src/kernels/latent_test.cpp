#include "kernels/latent.h"

#include <gtest/gtest.h>

#include "kernels/test_arrays.h"

namespace plumb {
namespace {

void check(const LatentHeads& a) {
  const int64_t wide = a.plain + a.rotated, from = a.plain + a.value, count = a.rows * a.heads;
  const auto mapped = random_array(count * from, 1), shared = random_array(a.rows * a.rotated, 2);
  const auto dk = random_array(count * wide, 3), dv = random_array(count * a.value, 4);
  std::vector<double> want_k(dk.size()), want_v(dv.size()), want_dm(mapped.size()), want_ds(shared.size());
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < wide; ++c) {
      const bool plain = c < a.plain;
      const int64_t at = plain ? i * from + c : i / a.heads * a.rotated + c - a.plain;
      want_k[i * wide + c] = plain ? mapped[at] : shared[at];
      (plain ? want_dm : want_ds)[at] += dk[i * wide + c];
    }
    for (int64_t c = 0; c < a.value; ++c) {
      want_v[i * a.value + c] = mapped[i * from + a.plain + c];
      want_dm[i * from + a.plain + c] = dv[i * a.value + c];
    }
  }
  Floats m(mapped), s(shared), k(dk.size()), v(dv.size()), gk(dk), gv(dv), dm(m.size()), ds(s.size());
  latent_heads_forward(a, m.data(), s.data(), k.data(), v.data());
  expect_close(k, want_k, 0, "k");
  expect_close(v, want_v, 0, "v");
  LatentHeadsBackward g{gk.data(), gv.data(), dm.data(), ds.data()};
  latent_heads_backward(a, g);
  expect_close(dm, want_dm, 0, "dmapped");
  expect_close(ds, want_ds, 1e-6, "dshared", 1);
  g.add_mapped = g.add_shared = true;
  latent_heads_backward(a, g);
  for (double& x : want_dm) x *= 2;
  for (double& x : want_ds) x *= 2;
  expect_close(dm, want_dm, 0, "dmapped twice");
  expect_close(ds, want_ds, 1e-6, "dshared twice", 1);
}

TEST(Latent, HeadsAndTheirGradient) {
  check({.rows = 7, .heads = 3, .plain = 5, .rotated = 4, .value = 6});
  check({.rows = 1, .heads = 1, .plain = 2, .rotated = 2, .value = 1});
  check({.rows = 300, .heads = 16, .plain = 32, .rotated = 16, .value = 24});
  check({.rows = 0, .heads = 2, .plain = 2, .rotated = 2, .value = 2});
}

}  // namespace
}  // namespace plumb
