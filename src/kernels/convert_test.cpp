// Every number that 16 bits can hold, from each storage that a product or a table reads.
#include "kernels/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "kernels/embedding.h"
#include "kernels/gemv.h"
#include "kernels/test_arrays.h"

namespace plumb {
namespace {

constexpr int64_t kWidth = 257, kRows = 256, kStride = 263;  // odd: rows at every alignment, and tails

// (kRows, kStride) with all of T's bit patterns in order along the rows, the first few again at the end; what
// lies between the rows is 1.
template <class T>
std::vector<T> every_value() {
  std::vector<T> x(kRows * kStride, T{0x3c00});
  for (int64_t i = 0; i < kRows * kWidth; ++i)
    x[i / kWidth * kStride + i % kWidth] = T{static_cast<uint16_t>(i)};
  return x;
}

void expect_bits(float actual, float expected, int64_t place) {
  if (std::isnan(expected)) {
    ASSERT_TRUE(std::isnan(actual)) << place << " became " << actual;
  } else {
    ASSERT_EQ(std::bit_cast<uint32_t>(actual), std::bit_cast<uint32_t>(expected))
        << place << ": " << actual << ", expected " << expected;
  }
}

template <class T>
void expect_widened(DType dtype) {
  const std::vector<T> x = every_value<T>();
  for (const bool round : {false, true}) {
    Floats y(kRows * kWidth);
    widen({x.data(), dtype, kRows, kWidth, kStride, round, y.data()});
    for (int64_t i = 0; i < kRows * kWidth; ++i) {
      const float value = to_float(T{static_cast<uint16_t>(i)});
      ASSERT_NO_FATAL_FAILURE(expect_bits(y[i], round ? to_float(to_bf16(value)) : value, i));
    }
  }
}

TEST(Convert, WidensEveryValueOnEveryInstructionSet) {
  for_each_target([] {
    expect_widened<Float16>(DType::f16);
    expect_widened<BFloat16>(DType::bf16);
  });
}

TEST(Convert, RowsOfBothMayHaveGaps) {
  const std::vector<float> x = {1, 2, 3, 0, 4, 5, 6, 0};
  std::vector<float> y(10, 7);
  widen({.src = x.data(), .rows = 2, .width = 3, .ld = 4, .dst = y.data(), .dst_ld = 5});
  EXPECT_EQ(y, (std::vector<float>{1, 2, 3, 7, 7, 4, 5, 6, 7, 7}));
}

TEST(Convert, TablesInF16KeepEveryValueOnEveryInstructionSet) {
  const std::vector<Float16> x = every_value<Float16>();
  std::vector<int32_t> ids(kRows);
  for (int64_t r = 0; r < kRows; ++r) ids[r] = static_cast<int32_t>(r);
  for_each_target([&] {
    Floats y(kRows * kStride);
    embedding_forward({.rows = kRows,
                       .vocabulary = kRows,
                       .width = kStride,
                       .ids = ids.data(),
                       .table = x.data(),
                       .dtype = DType::f16,
                       .scale = 1,
                       .y = y.data()});
    for (int64_t i = 0; i < kRows * kStride; ++i)
      ASSERT_NO_FATAL_FAILURE(expect_bits(y[i], to_float(x[i]), i));
  });
}

// One input of 1: each result is the weight itself.
TEST(Convert, ProductsReadEveryF16WeightOnEveryInstructionSet) {
  const int64_t n = int64_t{1} << 16;
  std::vector<Float16> weights(n);
  for (int64_t i = 0; i < n; ++i) weights[i] = {static_cast<uint16_t>(i)};
  const float one = 1;
  for_each_target([&] {
    Floats y(n);
    gemv({.m = 1,
          .n = n,
          .k = 1,
          .a = {&one, DType::f32, 1},
          .b = {weights.data(), DType::f16, n},
          .c = y.data(),
          .ldc = n});
    for (int64_t i = 0; i < n; ++i) {
      // A sum that starts from 0 has no negative zero.
      ASSERT_NO_FATAL_FAILURE(expect_bits(y[i], to_float(weights[i]) + 0.0f, i));
    }
  });
}

}  // namespace
}  // namespace plumb
