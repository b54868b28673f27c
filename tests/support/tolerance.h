// How near is right. One table for the whole of tests/, so that no test widens its own.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <span>

namespace plumb::test {

// |got - want| <= absolute + relative * |want|. The reason says where the numbers come from.
struct Tolerance {
  double relative;
  double absolute;
  const char* reason;
};

inline constexpr Tolerance kNearF64{1e-10, 1e-12, "f64 sums of a few thousand terms, in another order"};
inline constexpr Tolerance kNearF32{
    1e-4, 1e-4, "values of order 1 through a whole small model: f32 engines differ from f64 by up to 5e-5"};
inline constexpr Tolerance kNearF16{4e-3, 4e-3, "four roundings of 2^-10 on the way through a layer"};
inline constexpr Tolerance kNearBF16{3e-2, 3e-2, "four roundings of 2^-7 on the way through a layer"};
inline constexpr Tolerance kNearTrainedF32{
    2e-3, 2e-3, "losses over ten AdamW steps: m / sqrt(v) blows up the rounding of gradients near 0"};
inline constexpr Tolerance kSameBits{0, 0, "the same operations in the same order"};

// Compares element by element; the message names the worst one. NaN is near nothing, an infinity only itself.
template <class A, class B>
testing::AssertionResult all_near(std::span<const A> got, std::span<const B> want,
                                  const Tolerance& tolerance) {
  if (got.size() != want.size()) {
    return testing::AssertionFailure() << "got " << got.size() << " values, expected " << want.size();
  }
  size_t wrong = 0, worst = 0;
  double worst_excess = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double a = static_cast<double>(got[i]), b = static_cast<double>(want[i]);
    if (a == b) continue;
    double excess = std::abs(a - b) - (tolerance.absolute + tolerance.relative * std::abs(b));
    if (!std::isfinite(a) || !std::isfinite(b)) excess = INFINITY;
    if (excess <= 0) continue;
    if (wrong++ == 0 || excess > worst_excess) {
      worst = i;
      worst_excess = excess;
    }
  }
  if (wrong == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << wrong << " of " << got.size() << " values are off, the worst at "
                                     << worst << ": got " << got[worst] << ", expected " << want[worst]
                                     << " within " << tolerance.relative << " relative and "
                                     << tolerance.absolute << " absolute (" << tolerance.reason << ")";
}

}  // namespace plumb::test
