#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tensor/memory.h"

namespace plumb {
namespace {

TEST(Tensor, ReshapeSharesStorageAndGradient) {
  Tensor a = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  a.set_requires_grad();
  Tensor b = a.reshape({3, 2});
  EXPECT_EQ(a.raw(), b.raw());
  EXPECT_EQ(a.gradient(), b.gradient());
  EXPECT_FALSE(a.grad().defined());
}

TEST(Tensor, RowsView) {
  Tensor a = Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(a.rows_view(1, 2).f32()[0], 3.0f);
  EXPECT_EQ(Tensor::empty({0, 4}).rows(), 0);
}

TEST(Tensor, MemoryIsReused) {
  const void* first = Tensor::empty({1000, 1000}).raw();
  const void* second = Tensor::empty({1000, 1000}).raw();
  EXPECT_EQ(first, second);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % kMemoryAlignment, 0u);
}

// 300 kB: blocks that lie side by side, more than one region holds. A release leaves what is in use as it is.
TEST(Memory, BlocksOfAMiddleSizeDoNotOverlapAndComeBackAfterARelease) {
  constexpr int64_t kBlocks = 300, kFloats = 75000;
  const Tensor kept = Tensor::empty({kFloats});
  std::fill_n(kept.f32(), kFloats, -1.0f);
  for (int round = 0; round < 3; ++round) {
    std::vector<Tensor> blocks;
    blocks.reserve(kBlocks);
    for (int64_t i = 0; i < kBlocks; ++i) {
      blocks.push_back(Tensor::empty({kFloats}));
      std::fill_n(blocks[i].f32(), kFloats, static_cast<float>(i));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks[i].raw()) % kMemoryAlignment, 0u);
    }
    for (int64_t i = 0; i < kBlocks; ++i) {
      EXPECT_EQ(std::count(blocks[i].f32(), blocks[i].f32() + kFloats, static_cast<float>(i)), kFloats) << i;
    }
    blocks.clear();
    EXPECT_GE(held_memory(), live_memory() + kBlocks * kFloats * sizeof(float));
    release_cached_memory();
    EXPECT_EQ(held_memory(), live_memory());
    EXPECT_EQ(std::count(kept.f32(), kept.f32() + kFloats, -1.0f), kFloats);
  }
}

TEST(DType, F16RoundTripsEveryValue) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const Float16 h{static_cast<uint16_t>(bits)};
    const float f = to_float(h);
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(to_float(to_f16(f))));
    } else {
      EXPECT_EQ(to_f16(f).bits, h.bits) << bits;
    }
  }
  EXPECT_EQ(to_float(to_f16(65519.0f)), 65504.0f);
  EXPECT_TRUE(std::isinf(to_float(to_f16(65520.0f))));
  EXPECT_EQ(to_float(to_f16(0x1.0p-25f)), 0.0f);  // a tie goes to even
}

TEST(DType, BF16RoundsToNearestEven) {
  EXPECT_EQ(to_float(to_bf16(257.0f)), 256.0f);
  EXPECT_EQ(to_float(to_bf16(259.0f)), 260.0f);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace plumb
