#include <gtest/gtest.h>

#include "kernels/elementwise.h"
#include "kernels/test_arrays.h"

namespace plumb {
namespace {

TEST(Bound, SoftcapAndItsGradient) {
  for_each_target([] {
    for (const int64_t n : {0, 1, 17, 20000}) {
      const auto x = random_array(n, 1, 3), g = random_array(n, 2);
      std::vector<double> y(n), dx(n);
      for (int64_t i = 0; i < n; ++i) {
        const double t = std::tanh(x[i] / 2.5);
        y[i] = 2.5 * t;
        dx[i] = g[i] * (1 - t * t);
      }
      Floats in(x), dy(g), out(n), grad(n);
      softcap_forward(n, 2.5f, in.data(), out.data());
      expect_close(out, y, 1e-6, "y");
      softcap_backward(n, 2.5f, in.data(), dy.data(), grad.data(), false);
      expect_close(grad, dx, 1e-6, "dx");
      softcap_backward(n, 2.5f, in.data(), dy.data(), grad.data(), true);
      for (double& v : dx) v *= 2;
      expect_close(grad, dx, 1e-6, "dx added");
    }
  });
}

TEST(Bound, ClampAndItsGradient) {
  for_each_target([] {
    for (const int64_t n : {2, 17, 20000}) {
      auto x = random_array(n, 3);
      x[0] = -0.5, x[1] = 0.75;  // the bounds themselves
      const auto g = random_array(n, 4);
      std::vector<double> y(n), dx(n);
      for (int64_t i = 0; i < n; ++i) {
        y[i] = std::min(0.75, std::max(-0.5, x[i])) + 0.25;
        dx[i] = x[i] < -0.5 || x[i] > 0.75 ? 0 : g[i];
      }
      Floats in(x), dy(g), out(n), grad(n);
      const Clamp by{-0.5f, 0.75f, 0.25f};
      clamp_forward(n, by, in.data(), out.data());
      expect_close(out, y, 1e-7, "y");
      clamp_backward(n, by, in.data(), dy.data(), grad.data(), false);
      expect_close(grad, dx, 0, "dx");
      clamp_backward(n, by, in.data(), dy.data(), grad.data(), true);
      for (double& v : dx) v *= 2;
      expect_close(grad, dx, 0, "dx added");
    }
  });
  float nan = std::nanf("");
  clamp_forward(1, {-0.5f, 0.5f}, &nan, &nan);
  EXPECT_TRUE(std::isnan(nan));
}

}  // namespace
}  // namespace plumb
