// The attention tests' arrays: kernels and oracle on the same numbers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "kernels/reference_attention.h"
#include "kernels/test_arrays.h"

namespace plumb {

// A fused buffer of q, k and v with gaps, its gradients, and the same numbers in f64.
class AttentionCase {
 public:
  // Sizes and flags as `shape` has them; the pointers and rows are made here.
  explicit AttentionCase(Attention shape, uint64_t seed = 1) : a(shape) {
    if (a.value_dim == 0) a.value_dim = a.head_dim;
    if (a.kv_heads == 0) a.kv_heads = a.heads;
    if (a.scale == 1.0f) a.scale = 1.0f / std::sqrt(static_cast<float>(a.head_dim));
    a.kv_rows = a.keys + 2;
    a.q_row = a.heads * a.head_dim + 3;
    a.k_row = a.v_row = a.kv_heads * (a.head_dim + a.value_dim) + 1;
    a.out_row = a.heads * a.value_dim + 5;
    q.assign(a.batch * a.queries * a.q_row, std::nanf(""));
    kv.assign(a.batch * a.kv_rows * a.k_row, std::nanf(""));
    out.assign(a.batch * a.queries * a.out_row, std::nanf(""));
    dout.assign(out.size(), std::nanf(""));
    lse.assign(a.batch * a.heads * a.queries, std::nanf(""));
    x.q = random_array(a.batch * a.queries * a.heads * a.head_dim, seed);
    x.k = random_array(a.batch * a.keys * a.kv_heads * a.head_dim, seed + 10);
    x.v = random_array(a.batch * a.keys * a.kv_heads * a.value_dim, seed + 20);
    x.dout = random_array(a.batch * a.queries * a.heads * a.value_dim, seed + 30);
    a.q = q.data();
    a.k = kv.data();
    a.v = kv.data() + a.kv_heads * a.head_dim;
    a.out = out.data();
    a.lse = lse.data();
    copy_in();
  }

  void copy_in() {
    for (int64_t n = 0; n < a.batch * a.queries; ++n) {
      for (int64_t i = 0; i < a.heads * a.head_dim; ++i)
        q[n * a.q_row + i] = x.q[n * a.heads * a.head_dim + i];
      for (int64_t i = 0; i < a.heads * a.value_dim; ++i)
        dout[n * a.out_row + i] = x.dout[n * a.heads * a.value_dim + i];
    }
    for (int64_t b = 0; b < a.batch; ++b) {
      for (int64_t s = 0; s < a.keys; ++s) {
        float* row = kv.data() + (b * a.kv_rows + s) * a.k_row;
        const int64_t n = b * a.keys + s, k = a.kv_heads * a.head_dim, v = a.kv_heads * a.value_dim;
        for (int64_t i = 0; i < k; ++i) row[i] = x.k[n * k + i];
        for (int64_t i = 0; i < v; ++i) row[k + i] = x.v[n * v + i];
      }
    }
  }

  void forward() {
    attention_forward(a);
    reference::attention_forward(a, x);
  }

  // Gradients lie as their arrays do; `add` starts them at 0.25.
  void backward(bool add = false) {
    dq.assign(q.size(), add ? 0.25f : std::nanf(""));
    dkv.assign(kv.size(), add ? 0.25f : std::nanf(""));
    dsinks.assign(a.heads, add ? 0.25f : std::nanf(""));
    attention_backward(a, {.dout = dout.data(),
                           .dout_row = a.out_row,
                           .dq = dq.data(),
                           .dq_row = a.q_row,
                           .dk = dkv.data(),
                           .dk_row = a.k_row,
                           .dv = dkv.data() + a.kv_heads * a.head_dim,
                           .dv_row = a.v_row,
                           .add_dq = add,
                           .add_dk = add,
                           .add_dv = add,
                           .dsinks = a.sinks ? dsinks.data() : nullptr,
                           .add_dsinks = add});
    reference::attention_backward(a, x);
  }

  // f32 sums of up to thousands of products of normal numbers, and an exponential of about 1e-7.
  void expect_forward(double tolerance = 3e-6) {
    for (int64_t n = 0; n < a.batch * a.queries; ++n) {
      for (int64_t i = 0; i < a.out_row; ++i) {
        const float got = out[n * a.out_row + i];
        if (i >= a.heads * a.value_dim) {
          ASSERT_TRUE(std::isnan(got)) << "written beyond a row";
          continue;
        }
        ASSERT_NEAR(got, x.out[n * a.heads * a.value_dim + i], tolerance) << "row " << n << " column " << i;
      }
    }
    for (size_t i = 0; i < lse.size(); ++i) {
      if (std::isinf(x.lse[i])) {
        ASSERT_EQ(lse[i], -std::numeric_limits<float>::infinity());
      } else {
        ASSERT_NEAR(lse[i], x.lse[i], 2e-6 * (1 + std::abs(x.lse[i])));
      }
    }
  }

  void expect_backward(double start = 0, double tolerance = 1e-5) {
    double size = 1;
    for (const auto* array : {&x.dq, &x.dk, &x.dv}) {
      for (const double g : *array) size = std::max(size, std::abs(g));
    }
    for (int64_t n = 0; n < a.batch * a.queries; ++n) {
      for (int64_t i = 0; i < a.heads * a.head_dim; ++i) {
        ASSERT_NEAR(dq[n * a.q_row + i], start + x.dq[n * a.heads * a.head_dim + i], tolerance * size)
            << "dq row " << n << " column " << i;
      }
    }
    for (int64_t h = 0; a.sinks && h < a.heads; ++h)
      ASSERT_NEAR(dsinks[h], start + x.dsinks[h], tolerance * size * 10) << "dsinks " << h;
    const int64_t k = a.kv_heads * a.head_dim, v = a.kv_heads * a.value_dim;
    for (int64_t b = 0; b < a.batch; ++b) {
      for (int64_t s = 0; s < a.keys; ++s) {
        const float* row = dkv.data() + (b * a.kv_rows + s) * a.k_row;
        for (int64_t i = 0; i < k; ++i) {
          ASSERT_NEAR(row[i], start + x.dk[(b * a.keys + s) * k + i], tolerance * size)
              << "dk " << s << ", " << i;
        }
        for (int64_t i = 0; i < v; ++i) {
          ASSERT_NEAR(row[k + i], start + x.dv[(b * a.keys + s) * v + i], tolerance * size)
              << "dv " << s << ", " << i;
        }
      }
    }
  }

  void expect_all() {
    forward();
    expect_forward();
    backward();
    expect_backward();
    backward(true);
    expect_backward(0.25);
  }

  Attention a;
  reference::AttentionArrays x;
  std::vector<float> q, kv, out, lse, dout, dq, dkv, dsinks;
};

// (B, S) of a rule for (b, s).
inline std::vector<uint8_t> mask_of(int64_t batch, int64_t keys,
                                    const std::function<bool(int64_t, int64_t)>& seen) {
  std::vector<uint8_t> mask(batch * keys);
  for (int64_t i = 0; i < batch * keys; ++i) mask[i] = seen(i / keys, i % keys);
  return mask;
}

}  // namespace plumb
