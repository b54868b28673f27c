#include "kernels/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/gemm_case.h"

namespace plumb {
namespace {

TEST(Gemm, OddSizesEveryOrientation) {
  for (const GemmCase& c :
       {GemmCase{1, 1, 1}, GemmCase{1, 7, 3}, GemmCase{5, 1, 9}, GemmCase{3, 5, 7}, GemmCase{17, 33, 65},
        GemmCase{64, 48, 80}, GemmCase{129, 67, 31}, GemmCase{40, 300, 513}}) {
    expect_products(c);
  }
}

// Enough rows, or columns, that two threads get a share each.
TEST(Gemm, DividedAmongThreads) {
  for (const GemmCase& c : {GemmCase{1031, 9, 21}, GemmCase{40, 523, 17}, GemmCase{270, 530, 33}})
    expect_products(c);
}

TEST(Gemm, EveryStoredType) {
  for (const DType b : {DType::bf16, DType::f16}) {
    for (const GemmCase& c : {GemmCase{1, 19, 33, DType::f32, b}, GemmCase{3, 70, 130, DType::f32, b},
                              GemmCase{35, 21, 50, DType::f32, b}}) {
      expect_products(c);
    }
  }
  expect_products({9, 11, 40, DType::bf16, DType::f32});
  expect_products({9, 11, 40, DType::bf16, DType::bf16});
  expect_products({9, 11, 40, DType::f16, DType::f32});
}

TEST(Gemm, Bf16ProductRoundsF32Operands) {
  expect_products({1, 9, 33, DType::f32, DType::f32, DType::bf16});
  expect_products({37, 29, 65, DType::f32, DType::f32, DType::bf16});
  expect_products({37, 29, 65, DType::f32, DType::f16, DType::bf16});
}

TEST(Gemm, Bf16Primitive) {
  if (!detail::bf16_primitive_exists()) GTEST_SKIP() << "no bf16 primitive on this processor";
  for (const GemmCase& c :
       {GemmCase{1, 9, 33, DType::f32, DType::f32, DType::bf16},
        GemmCase{37, 29, 65, DType::f32, DType::f32, DType::bf16},
        GemmCase{70, 150, 100, DType::f32, DType::bf16}, GemmCase{20, 31, 64, DType::bf16, DType::bf16}}) {
    expect_products(c, detail::gemm_bf16_primitive);
  }
}

TEST(Gemm, EmptyDims) {
  std::vector<float> c = {1, 2, 3, 4}, bias = {10, 20};
  Gemm g{.m = 2,
         .n = 2,
         .k = 0,
         .a = {nullptr, DType::f32, 0},
         .b = {nullptr, DType::f32, 2},
         .c = c.data(),
         .ldc = 2,
         .bias = bias.data(),
         .add = true};
  gemm(g);
  EXPECT_EQ(c, (std::vector<float>{11, 22, 13, 24}));
  g.add = false;
  gemm(g);
  EXPECT_EQ(c, (std::vector<float>{10, 20, 10, 20}));
  g.bias = nullptr;
  g.add = true;
  gemm(g);
  EXPECT_EQ(c, (std::vector<float>{10, 20, 10, 20}));
  g.add = false;
  gemm(g);
  EXPECT_EQ(c, (std::vector<float>{0, 0, 0, 0}));
  gemm({.m = 0, .n = 5, .k = 3, .a = {nullptr, DType::f32, 3}, .b = {nullptr, DType::f32, 5}, .ldc = 5});
  gemm({.m = 5, .n = 0, .k = 3, .a = {nullptr, DType::f32, 3}, .b = {nullptr, DType::f32, 0}, .ldc = 0});
}

TEST(Gemm, NaNAndInfinitySpreadOnlyWhereTheyBelong) {
  Matrix a(5, 6, DType::f32, false, 1, 0), b(6, 7, DType::f32, false, 2, 0);
  float* x = static_cast<float*>(const_cast<void*>(a.operand.data));
  x[2 * 6 + 1] = std::nanf("");
  x[4 * 6 + 1] = std::numeric_limits<float>::infinity();
  std::vector<float> c(5 * 7);
  gemm({.m = 5,
        .n = 7,
        .k = 6,
        .a = a.operand,
        .b = b.operand,
        .c = c.data(),
        .ldc = 7,
        .compute = DType::bf16});
  for (int64_t i = 0; i < 5; ++i) {
    for (int64_t j = 0; j < 7; ++j) {
      EXPECT_EQ(std::isnan(c[i * 7 + j]), i == 2);
      EXPECT_EQ(std::isinf(c[i * 7 + j]), i == 4);
    }
  }
}

TEST(Gemm, SameBitsEachTime) {
  const Matrix a(150, 200, DType::f32, true, 1), b(200, 250, DType::f32, true, 2);
  std::vector<float> first(150 * 250), again(150 * 250);
  Gemm g{.m = 150, .n = 250, .k = 200, .a = a.operand, .b = b.operand, .c = first.data(), .ldc = 250};
  gemm(g);
  g.c = again.data();
  for (int run = 0; run < 5; ++run) {
    gemm(g);
    ASSERT_EQ(0, std::memcmp(first.data(), again.data(), first.size() * sizeof(float)));
  }
}

TEST(Gemm, PeakIsARate) {
  const double peak = gemm_peak(DType::bf16);
  EXPECT_GT(peak, 1.0);
  EXPECT_LT(peak, 1e6);
}

}  // namespace
}  // namespace plumb
