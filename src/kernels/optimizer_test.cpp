#include "kernels/optimizer.h"

#include <gtest/gtest.h>
#include <omp.h>

#include "kernels/test_arrays.h"

namespace plumb {
namespace {

struct Scalars {
  double p = 0, m = 0, v = 0;
};

void check_adamw() {
  for (const int64_t n : {0, 1, 9, 70, 40000}) {
    const auto start = random_array(n, 1);
    Floats p(start), m(n, 0), v(n, 0);
    std::vector<Scalars> want(n);
    for (int64_t i = 0; i < n; ++i) want[i].p = start[i];
    for (int64_t t = 1; t <= 4; ++t) {
      const auto gradient = random_array(n, 10 + t, 0.1);
      Floats g(gradient);
      const double moved =
          adamw_step({n, p.data(), g.data(), m.data(), v.data(), 1e-2, 0.9, 0.95, 1e-8, 0.1, t, 0.5});
      double want_moved = 0;
      for (int64_t i = 0; i < n; ++i) {
        Scalars& s = want[i];
        const double gi = 0.5 * gradient[i];
        s.m = 0.9 * s.m + 0.1 * gi;
        s.v = 0.95 * s.v + 0.05 * gi * gi;
        const double before = s.p;
        s.p = (1 - 1e-2 * 0.1) * s.p -
              1e-2 * s.m / (1 - std::pow(0.9, t)) / (std::sqrt(s.v / (1 - std::pow(0.95, t))) + 1e-8);
        want_moved += (s.p - before) * (s.p - before);
      }
      EXPECT_NEAR(moved, want_moved, 1e-4 * want_moved);
    }
    std::vector<double> want_p, want_m, want_v;
    for (const Scalars& s : want) want_p.push_back(s.p), want_m.push_back(s.m), want_v.push_back(s.v);
    expect_close(p, want_p, 5e-7, "p");
    expect_close(m, want_m, 1e-6, "m");
    expect_close(v, want_v, 1e-6, "v");
  }
}

TEST(Optimizer, AdamWAgainstOracle) {
  for_each_target(check_adamw);
}

TEST(Optimizer, B26AdamWOrderCorrectionAndEps) {
  float p = 1, g = 0.5f, m = 0, v = 0;
  adamw_step({1, &p, &g, &m, &v, 0.1, 0.9, 0.999, 1e-8, 0.1, 1});
  EXPECT_NEAR(p, 0.890000002, 1e-7);
  p = 1, g = 1e-8f, m = v = 0;
  adamw_step({1, &p, &g, &m, &v, 0.1, 0.9, 0.999, 1e-8, 0, 1});
  EXPECT_NEAR(p, 0.95, 1e-7);
}

TEST(Optimizer, ZeroGradientOnlyDecays) {
  float p = 2, g = 0, m = 0, v = 0;
  EXPECT_NEAR(adamw_step({1, &p, &g, &m, &v, 0.1, 0.9, 0.999, 1e-8, 0.5, 3}), 0.01, 1e-7);
  EXPECT_FLOAT_EQ(p, 2 * 0.95f);
  EXPECT_EQ(adamw_step({1, &p, &g, &m, &v, 0.1, 0.9, 0.999, 1e-8, 0, 4}), 0);
}

TEST(Optimizer, MomentsEndAtZeroNotInDenormals) {
  float p = 2, g = 0, m = 1, v = 1e-30f;
  for (int t = 1; t < 2000; ++t) {
    adamw_step({1, &p, &g, &m, &v, 0, 0.9, 0.9, 1e-8, 0, t});
    ASSERT_TRUE(m == 0 || std::isnormal(m));
    ASSERT_TRUE(v == 0 || std::isnormal(v));
  }
  EXPECT_EQ(m, 0);
  EXPECT_EQ(v, 0);
}

TEST(Optimizer, SameBitsForAnyThreads) {
  const int64_t n = 100003;
  const int threads = omp_get_max_threads();
  std::vector<float> first;
  double moved = 0;
  for (const int t : {1, 3}) {
    omp_set_num_threads(t);
    Floats p(random_array(n, 1)), g(random_array(n, 2)), m(n, 0), v(n, 0);
    const double d = adamw_step({n, p.data(), g.data(), m.data(), v.data(), 1e-3});
    if (t == 1) first.assign(p.data(), p.data() + n), moved = d;
    EXPECT_EQ(d, moved);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(p[i], first[i]);
  }
  omp_set_num_threads(threads);
}

void check_sgd() {
  for (const bool nesterov : {false, true}) {
    for (const double momentum : {0.0, 0.9}) {
      const int64_t n = 37;
      const auto start = random_array(n, 1);
      Floats p(start), u(n, 0);
      std::vector<double> want = start, want_u(n);
      for (int t = 0; t < 3; ++t) {
        const auto gradient = random_array(n, 5 + t);
        Floats g(gradient);
        sgd_step({n, p.data(), g.data(), momentum ? u.data() : nullptr, 0.1, momentum, 0.01, nesterov, 0.5});
        for (int64_t i = 0; i < n; ++i) {
          const double gi = 0.5 * gradient[i] + 0.01 * want[i];
          want_u[i] = momentum * want_u[i] + gi;
          want[i] -= 0.1 * (nesterov && momentum ? gi + momentum * want_u[i] : want_u[i]);
        }
      }
      expect_close(p, want, 5e-7, "p");
    }
  }
}

TEST(Optimizer, SgdAgainstOracle) {
  for_each_target(check_sgd);
}

TEST(Optimizer, MuonsPointwiseParts) {
  const int64_t n = 21;
  const auto gradient = random_array(n, 1), start = random_array(n, 2), weights = random_array(n, 3);
  for (const bool nesterov : {false, true}) {
    Floats g(gradient), u(start), out(n), p(weights);
    muon_momentum({n, g.data(), u.data(), 0.9, nesterov, 0.5, out.data()});
    std::vector<double> want_u(n), want(n), want_p(n);
    double want_moved = 0;
    for (int64_t i = 0; i < n; ++i) {
      want_u[i] = 0.9 * start[i] + 0.5 * gradient[i];
      want[i] = nesterov ? 0.5 * gradient[i] + 0.9 * want_u[i] : want_u[i];
      want_p[i] = 0.99 * weights[i] - 0.1 * want[i];
      want_moved += (want_p[i] - weights[i]) * (want_p[i] - weights[i]);
    }
    expect_close(u, want_u, 2e-7, "u");
    expect_close(out, want, 2e-7, "out");
    const double moved = decayed_step({n, p.data(), out.data(), 0.99, 0.1});
    expect_close(p, want_p, 2e-7, "p");
    EXPECT_NEAR(moved, want_moved, 1e-5 * want_moved);
  }
}

}  // namespace
}  // namespace plumb
