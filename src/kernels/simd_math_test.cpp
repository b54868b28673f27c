#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd_math_test.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {

enum Function { kExp, kTanh, kErf, kSigmoid };

void apply(int function, size_t n, const float* x, float* y) {
  for_lanes(n, [&](auto d, size_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    hn::StoreU(function == kExp    ? exp_v(d, v)
               : function == kTanh ? tanh_v(d, v)
               : function == kErf  ? erf_v(d, v)
                                   : sigmoid_v(d, v),
               d, y + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/test_arrays.h"

namespace plumb {
namespace {

HWY_EXPORT(apply);

struct Case {
  const char* name;
  double (*exact)(double);
  double relative;  // of the value
  double at_inf, at_minus_inf;
};
const Case kCases[] = {
    {"exp", [](double x) { return std::exp(x); }, 3e-7, std::numeric_limits<double>::infinity(), 0},
    {"tanh", [](double x) { return std::tanh(x); }, 6e-7, 1, -1},
    {"erf", [](double x) { return std::erf(x); }, 6e-7, 1, -1},
    {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, 5e-7, 1, 0},
};

void check_functions() {
  for (int f = 0; f < 4; ++f) {
    const Case& c = kCases[f];
    Floats x(std::vector<double>{0}), y(1);
    std::vector<double> points;
    for (double v = 1e-37; v < 87; v *= 1.0009) {
      points.push_back(static_cast<float>(v));
      points.push_back(static_cast<float>(-v));
    }
    x = Floats(points), y = Floats(x.size());
    HWY_DYNAMIC_DISPATCH(apply)(f, x.size(), x.data(), y.data());
    for (int64_t i = 0; i < x.size(); ++i) {
      const double want = c.exact(x[i]);
      ASSERT_NEAR(y[i], want, c.relative * std::abs(want)) << c.name << " " << x[i];
      ASSERT_LE(std::abs(y[i]), f == 0 ? 1e38 : 1.0);
    }
    const float inf = std::numeric_limits<float>::infinity();
    x = Floats({inf, 3e38, 1e5, 100, -inf, -3e38, -1e5, -100, std::nan(""), 0}), y = Floats(10);
    HWY_DYNAMIC_DISPATCH(apply)(f, 10, x.data(), y.data());
    for (int i = 0; i < 4; ++i) EXPECT_EQ(y[i], c.at_inf) << c.name << " " << x[i];
    for (int i = 4; i < 8; ++i) EXPECT_EQ(y[i], c.at_minus_inf) << c.name << " " << x[i];
    EXPECT_TRUE(std::isnan(y[8])) << c.name;
    EXPECT_EQ(y[9], c.exact(0)) << c.name;
  }
}

// What it would take away: NaN, infinities, numbers below the normal ones, and sums in the order as written.
TEST(SimdMath, NothingIsBuiltWithFastMath) {
#ifdef __FAST_MATH__
  FAIL() << "-ffast-math";
#endif
  volatile float nan = std::nanf(""), large = 1e30f, tiny = 1e-38f;
  EXPECT_TRUE(nan != nan);
  EXPECT_EQ((1.0f + large) - large, 0.0f);
  EXPECT_GT(tiny * 0.25f, 0.0f) << "flushed to zero";
}

TEST(SimdMath, FunctionsAndTheirLimits) {
  for_each_target(check_functions);
}

}  // namespace
}  // namespace plumb
#endif  // HWY_ONCE
