#include "model/tensor_names.h"

#include <gtest/gtest.h>

#include <numeric>

namespace plumb {
namespace {

Tensor counting(const Shape& shape) {
  const Tensor t = Tensor::empty(shape);
  std::iota(t.f32(), t.f32() + t.numel(), 0.0f);
  return t;
}

std::vector<float> values(const Tensor& t) {
  return {t.f32(), t.f32() + t.numel()};
}

TEST(FileTensor, StackedTransposedAndInTurns) {
  Parameter a{.name = "a", .shape = {4, 2}}, b{.name = "b", .shape = {4, 2}};
  const FileTensor t{.name = "both",
                     .shape = {2, 2, 4},
                     .parts = {&a, &b},
                     .stacked = true,
                     .transposed = true,
                     .rows = {0, 2, 1, 3}};
  const Tensor stored = counting(t.shape);
  // Of the second, columns 0, 2, 1, 3 of [8 9 10 11; 12 13 14 15].
  a.value = t.part(stored, 0);
  b.value = t.part(stored, 1);
  EXPECT_EQ(values(b.value), (std::vector<float>{8, 12, 10, 14, 9, 13, 11, 15}));
  EXPECT_EQ(values(t.in_file([](const Parameter& p) { return p.value; })), values(stored));
}

TEST(FileTensor, SlicesOfOneParameter) {
  Parameter p{.name = "p", .shape = {6}, .value = counting({6})};
  const FileTensor t{.name = "second", .shape = {2}, .parts = {&p}, .slice = 1, .slices = 3};
  EXPECT_EQ(values(t.in_file([](const Parameter& q) { return q.value; })), (std::vector<float>{2, 3}));
}

}  // namespace
}  // namespace plumb
