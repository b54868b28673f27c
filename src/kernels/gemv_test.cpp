#include "kernels/gemv.h"

#include "kernels/gemm_case.h"
#include "kernels/test_arrays.h"

namespace plumb {
namespace {

// Every orientation of B; A is row-major.
void expect_small_products(const GemmCase& c) {
  for (int bits = 0; bits < 8; ++bits) expect_product(c, gemv, false, bits & 1, bits & 2, bits & 4);
}

TEST(Gemv, OddSizesOnEveryInstructionSet) {
  for_each_target([] {
    for (int64_t m = 1; m <= 5; ++m) {
      for (const DType b : {DType::f32, DType::bf16, DType::f16}) {
        expect_small_products({m, 7, 5, DType::f32, b});
        expect_small_products({m, 38, 75, DType::f32, b, DType::bf16});
      }
    }
  });
}

TEST(Gemv, SeveralBlocksForEachThread) {
  for (const int64_t m : {1, 4}) {
    for (const DType b : {DType::f32, DType::bf16, DType::f16}) {
      expect_small_products({m, 131, 70, DType::f32, b});
      expect_small_products({m, 640, 9, DType::f32, b});
      expect_small_products({m, 1, 300, DType::f32, b});
    }
  }
}

TEST(Gemv, GemmSendsItsSmallProductsHere) {
  const Matrix a(2, 100, DType::f32, false, 1), b(100, 200, DType::f32, true, 2);
  std::vector<float> by_gemm(400), by_gemv(400);
  Gemm g{.m = 2, .n = 200, .k = 100, .a = a.operand, .b = b.operand, .c = by_gemm.data(), .ldc = 200};
  ASSERT_TRUE(gemv_suits(g));
  gemm(g);
  g.c = by_gemv.data();
  gemv(g);
  EXPECT_EQ(by_gemm, by_gemv);
  g.m = 64;
  EXPECT_FALSE(gemv_suits(g));
}

}  // namespace
}  // namespace plumb
