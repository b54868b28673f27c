#include "kernels/pack.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/test_arrays.h"

namespace plumb {
namespace {

constexpr uint16_t kUntouched = 0x1234;

// Term t of column j, wherever it lies: values that differ everywhere, some halfway between two bf16, one
// NaN.
float value(int64_t j, int64_t t) {
  if (j == 3 && t == 5) return std::nanf("");
  return static_cast<float>(1 + j) * (1 + 0.00390625f * static_cast<float>(t % 7)) - static_cast<float>(t);
}

template <class T>
T stored(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return x;
  } else {
    return to_bf16(x);
  }
}

struct PackCase {
  int64_t n, k, panel;
  bool k_contiguous;
};

template <class T>
void expect_packed(const PackCase& c, DType dtype) {
  SCOPED_TRACE(testing::Message() << c.n << " " << c.k << " panel " << c.panel << " " << dtype_name(dtype)
                                  << (c.k_contiguous ? " k contiguous" : ""));
  const int64_t ld = (c.k_contiguous ? c.k : c.n) + 3;
  std::vector<T> src((c.k_contiguous ? c.n : c.k) * ld,
                     stored<T>(std::nanf("")));  // a gap that is not to be read
  for (int64_t j = 0; j < c.n; ++j) {
    for (int64_t t = 0; t < c.k; ++t) src[c.k_contiguous ? j * ld + t : t * ld + j] = stored<T>(value(j, t));
  }
  const int64_t panel = c.panel ? c.panel : 1;
  const int64_t columns = (c.n + panel - 1) / panel * panel, terms = c.panel ? (c.k + 31) / 32 * 32 : c.k;
  std::vector<BFloat16> dst(columns * terms + 1, BFloat16{kUntouched});
  pack_bf16({.src = src.data(),
             .dtype = dtype,
             .n = c.n,
             .k = c.k,
             .ld = ld,
             .k_contiguous = c.k_contiguous,
             .panel = c.panel,
             .dst = dst.data()});
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t t = 0; t < terms; ++t) {
      const int64_t place = c.panel ? (j / panel) * panel * terms + t / 32 * 32 * panel +
                                          t % 32 / 2 * 2 * panel + j % panel * 2 + t % 2
                                    : j * terms + t;
      const bool inside = j < c.n && t < c.k;
      ASSERT_EQ(dst[place].bits, inside ? to_bf16(value(j, t)).bits : 0) << "column " << j << ", term " << t;
    }
  }
  EXPECT_EQ(dst.back().bits, kUntouched) << "beyond the end";
}

TEST(Pack, EveryLayoutOnEveryInstructionSet) {
  for_each_target([] {
    for (const auto& [n, k] :
         {std::pair<int64_t, int64_t>{1, 1}, {7, 6}, {64, 32}, {65, 33}, {130, 96}, {48, 31}}) {
      for (const int64_t panel : {0, 16, 32, 48, 64}) {
        for (const bool k_contiguous : {false, true}) {
          expect_packed<float>({n, k, panel, k_contiguous}, DType::f32);
          expect_packed<BFloat16>({n, k, panel, k_contiguous}, DType::bf16);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  });
}

}  // namespace
}  // namespace plumb
