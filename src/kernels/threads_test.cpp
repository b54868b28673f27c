// The number of threads changes no bit of a pointwise kernel or of a sum over rows. (Norms, look-ups, losses,
// optimizers, reductions and attention have the same test beside theirs.)
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cstring>

#include "kernels/activation.h"
#include "kernels/elementwise.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "kernels/test_arrays.h"

namespace plumb {
namespace {

constexpr int64_t kRows = 1025, kWidth = 67, kSize = kRows * kWidth;  // several blocks of every kind

struct Arrays {
  Floats x{random_array(kSize, 1)}, z{random_array(kSize, 2)}, dy{random_array(kSize, 3)};
  Floats gain{random_array(kWidth, 4)}, bias{random_array(kWidth, 5)};
  Floats y{kSize, 0}, dx{kSize, 0}, dz{kSize, 0}, dgain{kWidth, 0}, dbias{kWidth, 0};
  float alpha = 0.7f, dalpha = 0;
};

// `body` computes the outputs of an Arrays.
template <class Body>
void expect_same_bits(const char* what, const Body& body) {
  const int threads = omp_get_max_threads();
  Arrays one;
  omp_set_num_threads(1);
  body(one);
  for (const int n : {2, 3, 5}) {
    Arrays several;
    omp_set_num_threads(n);
    body(several);
    for (const auto output : {&Arrays::y, &Arrays::dx, &Arrays::dz, &Arrays::dgain, &Arrays::dbias}) {
      Floats &a = one.*output, &b = several.*output;
      EXPECT_EQ(0, std::memcmp(a.data(), b.data(), a.size() * sizeof(float))) << what << ", threads " << n;
    }
    EXPECT_EQ(one.dalpha, several.dalpha) << what << ", threads " << n;
  }
  omp_set_num_threads(threads);
}

TEST(Threads, ChangeNoBitOfActivations) {
  expect_same_bits("activation", [](Arrays& a) {
    activation_forward({Activation::gelu, kRows, kWidth, a.x.data(), a.bias.data(), a.y.data()});
    activation_backward({Activation::gelu, kRows, kWidth, a.x.data(), a.bias.data(), a.dy.data(), a.dx.data(),
                         a.dbias.data()});
  });
  expect_same_bits("gated", [](Arrays& a) {
    gated_forward({Activation::silu, kRows, kWidth, a.x.data(), kWidth, a.z.data(), kWidth, a.y.data()});
    gated_backward({.kind = Activation::silu,
                    .rows = kRows,
                    .width = kWidth,
                    .gate = a.x.data(),
                    .gate_stride = kWidth,
                    .up = a.z.data(),
                    .up_stride = kWidth,
                    .dy = a.dy.data(),
                    .dgate = a.dx.data(),
                    .dgate_stride = kWidth,
                    .dup = a.dz.data(),
                    .dup_stride = kWidth});
  });
}

TEST(Threads, ChangeNoBitOfSumsAndBiases) {
  expect_same_bits("residual", [](Arrays& a) {
    const Gate gate{.values = a.gain.data(), .per_column = true};
    residual_forward({kRows, kWidth, a.x.data(), a.z.data(), 0.5f, gate, a.y.data()});
    residual_backward(
        {kRows, kWidth, a.dy.data(), a.z.data(), 0.5f, gate, a.dx.data(), a.dz.data(), a.dgain.data()});
  });
  expect_same_bits("scalar gate", [](Arrays& a) {
    const Gate gate{.values = &a.alpha};
    residual_backward({kRows, kWidth, a.dy.data(), a.z.data(), 1, gate, a.dx.data(), a.dz.data(), &a.dalpha});
  });
  expect_same_bits("bias", [](Arrays& a) {
    bias_forward(kRows, kWidth, a.x.data(), a.bias.data(), a.y.data());
    bias_backward(kRows, kWidth, a.dy.data(), a.dbias.data(), false);
    linear_combination(kSize, 0.3f, a.x.data(), 0.7f, a.z.data(), a.dz.data());
    multiply(kSize, a.x.data(), a.z.data(), a.dx.data(), false);
  });
}

TEST(Threads, ChangeNoBitOfRotations) {
  const RopeTable table = rope_table(rope_frequencies(1e4, 32), kRows);
  std::vector<int32_t> positions(kRows);
  for (int64_t r = 0; r < kRows; ++r) positions[r] = static_cast<int32_t>(r);
  expect_same_bits("rope", [&](Arrays& a) {
    std::copy_n(a.x.data(), kSize, a.y.data());
    rope({.x = a.y.data(),
          .rows = kRows,
          .row_stride = kWidth,
          .heads = 2,
          .head_dim = 33,
          .rotary_dim = 32,
          .cos = table.cos.data(),
          .sin = table.sin.data(),
          .positions = positions.data()});
  });
}

TEST(Threads, ChangeNoBitOfOtherNorms) {
  expect_same_bits("DyT", [](Arrays& a) {
    dyt_forward({kRows, kWidth, a.x.data(), &a.alpha, a.gain.data(), a.bias.data(), a.y.data()});
    dyt_backward({kRows, kWidth, a.x.data(), a.dy.data(), &a.alpha, a.gain.data(), a.dx.data(), &a.dalpha,
                  a.dgain.data(), a.dbias.data()});
  });
  expect_same_bits("BatchNorm", [](Arrays& a) {
    std::vector<double> stats(2 * kWidth);
    batch_norm_forward({.rows = kRows,
                        .width = kWidth,
                        .x = a.x.data(),
                        .gain = a.gain.data(),
                        .bias = a.bias.data(),
                        .y = a.y.data(),
                        .stats = stats.data()});
    batch_norm_backward({.rows = kRows,
                         .width = kWidth,
                         .x = a.x.data(),
                         .dy = a.dy.data(),
                         .stats = stats.data(),
                         .gain = a.gain.data(),
                         .dx = a.dx.data(),
                         .dgain = a.dgain.data(),
                         .dbias = a.dbias.data()});
  });
}

}  // namespace
}  // namespace plumb
