#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>

#include "kernels/attention_case.h"

namespace plumb {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<uint8_t> mask_of(int64_t batch, int64_t keys, const std::function<bool(int64_t, int64_t)>& seen) {
  std::vector<uint8_t> mask(batch * keys);
  for (int64_t i = 0; i < batch * keys; ++i) mask[i] = seen(i / keys, i % keys);
  return mask;
}

TEST(Attention, OddSizes) {
  Case({.batch = 1, .queries = 1, .keys = 1, .heads = 1, .head_dim = 1}).expect_all();
  Case({.batch = 2, .queries = 5, .keys = 7, .heads = 3, .head_dim = 10, .value_dim = 6}).expect_all();
  Case({.batch = 1, .queries = 37, .keys = 37, .heads = 2, .head_dim = 16, .causal = true}).expect_all();
  Case({.batch = 1, .queries = 131, .keys = 517, .heads = 1, .head_dim = 24}).expect_all();
  Case({.batch = 1, .queries = 300, .keys = 300, .heads = 1, .head_dim = 8, .causal = true}).expect_all();
  Case({.batch = 1, .queries = 1, .keys = 600, .heads = 4, .head_dim = 33}).expect_all();
  Case({.batch = 1, .queries = 1, .keys = 3, .heads = 70, .kv_heads = 1, .head_dim = 100}).expect_all();
}

TEST(Attention, EveryInstructionSet) {
  for_each_target([] {
    Case({.batch = 1,
          .queries = 19,
          .keys = 70,
          .heads = 2,
          .head_dim = 20,
          .causal = true,
          .first_query = 51,
          .window = 30,
          .dropout = 0.3f,
          .dropout_key = {5, 6}})
        .expect_all();
  });
}

TEST(Attention, B49GroupsOfQueryHeads) {
  // Values marked by kv head: q0 and q1 read kv0, q2 and q3 kv1.
  Case marked({.batch = 1, .queries = 3, .keys = 3, .heads = 4, .kv_heads = 2, .head_dim = 4});
  for (size_t i = 0; i < marked.x.v.size(); ++i) marked.x.v[i] = static_cast<double>(i / 4 % 2);
  marked.copy_in();
  marked.forward();
  for (int64_t h = 0; h < 4; ++h) EXPECT_FLOAT_EQ(marked.out[h * 4], h / 2);
  Case({.batch = 2,
        .queries = 33,
        .keys = 40,
        .heads = 6,
        .kv_heads = 2,
        .head_dim = 8,
        .causal = true,
        .first_query = 7})
      .expect_all();
  Case({.batch = 2, .queries = 9, .keys = 9, .heads = 5, .kv_heads = 1, .head_dim = 8}).expect_all();
  Case({.batch = 3,
        .queries = 1,
        .keys = 9,
        .heads = 8,
        .kv_heads = 2,
        .head_dim = 8,
        .causal = true,
        .first_query = 6})
      .expect_all();
}

TEST(Attention, B38WindowHoldsExactlyWKeys) {
  constexpr int64_t T = 12;
  for (const int64_t window : {1, 4, 100}) {
    Case c(
        {.batch = 1, .queries = T, .keys = T, .heads = 1, .head_dim = T, .causal = true, .window = window});
    for (int64_t i = 0; i < T * T; ++i) c.x.v[i] = i / T == i % T;  // one-hot by position
    c.copy_in();
    c.expect_all();
    for (int64_t s = 0; s < T; ++s)
      EXPECT_EQ(c.out[10 * c.a.out_row + s] != 0, s <= 10 && s > 10 - window) << s;
    // Step by step, each query against what the cache then holds.
    for (int64_t t = 0; t < T; ++t) {
      Attention step = c.a;
      std::vector<float> row(c.a.out_row);
      step.q += t * c.a.q_row;
      step.queries = 1;
      step.first_query = t;
      step.keys = t + 1;
      step.out = row.data();
      step.lse = nullptr;
      attention_forward(step);
      for (int64_t e = 0; e < T; ++e) EXPECT_NEAR(row[e], c.out[t * c.a.out_row + e], 1e-6);
    }
  }
  Case({.batch = 1, .queries = 150, .keys = 150, .heads = 1, .head_dim = 8, .causal = true, .window = 17})
      .expect_all();
  Case({.batch = 1, .queries = 140, .keys = 140, .heads = 2, .head_dim = 8, .window = 9})
      .expect_all();  // both sides
}

TEST(Attention, AlibiSlopes) {
  const std::vector<float> slopes = {0.5f, 0.0625f};
  Case({.batch = 1,
        .queries = 40,
        .keys = 60,
        .heads = 2,
        .head_dim = 8,
        .causal = true,
        .first_query = 20,
        .alibi_slopes = slopes.data()})
      .expect_all();
  const auto mask = mask_of(1, 60, [](int64_t, int64_t s) { return s % 3 != 1; });
  Case({.batch = 1,
        .queries = 40,
        .keys = 60,
        .heads = 2,
        .head_dim = 8,
        .key_mask = mask.data(),
        .mask_row = 60,
        .alibi_slopes = slopes.data()})
      .expect_all();
}

// Left, right and inner padding; together with causal and window some queries see nothing.
TEST(Attention, B32RowsWithoutKeysAreZero) {
  constexpr int64_t B = 4, S = 20;
  const auto mask = mask_of(B, S, [](int64_t b, int64_t s) {
    return b == 0 ? s >= 6 : b == 1 ? s < 9 : b == 2 ? s % 5 == 3 : false;
  });
  for (const int64_t window : {0, 3}) {
    Case c({.batch = B,
            .queries = S,
            .keys = S,
            .heads = 2,
            .head_dim = 8,
            .causal = true,
            .window = window,
            .key_mask = mask.data(),
            .mask_row = S,
            .dropout = 0.2f,
            .dropout_key = {3, 4}});
    c.expect_all();
    for (int64_t i = 0; i < 2 * 8; ++i) {
      EXPECT_EQ(c.out[2 * c.a.out_row + i], 0.0f);             // batch 0, query 2: only padding before it
      EXPECT_EQ(c.out[(3 * S + 19) * c.a.out_row + i], 0.0f);  // batch 3: nothing at all
    }
    c.backward();
    for (int64_t i = 0; i < 2 * 8; ++i) {
      EXPECT_EQ(c.dq[2 * c.a.q_row + i], 0.0f);
      EXPECT_EQ(c.dkv[(3 * c.a.kv_rows + 5) * c.a.k_row + i], 0.0f);
    }
  }
}

// B33, B35: masks that hide a pair twice are the same as one; 1 is visible.
TEST(Attention, B33MasksCombineAsBooleans) {
  const auto late = mask_of(1, 10, [](int64_t, int64_t s) { return s < 4; });
  Case both({.batch = 1,
             .queries = 4,
             .keys = 10,
             .heads = 1,
             .head_dim = 4,
             .causal = true,
             .key_mask = late.data(),
             .mask_row = 10});
  Case one({.batch = 1, .queries = 4, .keys = 10, .heads = 1, .head_dim = 4, .causal = true});
  both.forward();
  one.forward();
  EXPECT_EQ(0, std::memcmp(both.lse.data(), one.lse.data(), 4 * sizeof(float)));
  const auto single = mask_of(1, 10, [](int64_t, int64_t s) { return s == 7; });
  Case only({.batch = 1,
             .queries = 3,
             .keys = 10,
             .heads = 1,
             .head_dim = 4,
             .key_mask = single.data(),
             .mask_row = 10});
  only.forward();
  for (int64_t e = 0; e < 4; ++e) EXPECT_FLOAT_EQ(only.out[e], only.x.v[7 * 4 + e]);
}

TEST(Attention, EmptyQueriesAndKeys) {
  Case({.batch = 2, .queries = 0, .keys = 5, .heads = 2, .head_dim = 4}).expect_all();
  Case({.batch = 2, .queries = 3, .keys = 0, .heads = 2, .head_dim = 4}).expect_all();
  Case({.batch = 0, .queries = 3, .keys = 3, .heads = 2, .head_dim = 4}).expect_all();
}

// Numbers that the masks hide are never read into a sum: a NaN or infinity there changes nothing.
TEST(Attention, HiddenNaNDoesNotSpread) {
  constexpr int64_t S = 150;
  const auto mask = mask_of(1, S, [](int64_t, int64_t s) { return s != 31 && s < 140; });
  const Attention shape{.batch = 1,
                        .queries = S,
                        .keys = S,
                        .heads = 2,
                        .head_dim = 8,
                        .causal = true,
                        .key_mask = mask.data(),
                        .mask_row = S};
  Case clean(shape);
  clean.expect_all();
  clean.backward();
  for (const float bad : {kNaN, std::numeric_limits<float>::infinity()}) {
    Case keys(shape);
    for (const int64_t s : {31, 120, 145}) {  // padding, a late key, padding
      std::fill_n(keys.kv.data() + s * keys.a.k_row, 32, bad);
    }
    attention_forward(keys.a);
    keys.backward();
    Case query(shape);
    std::fill_n(query.q.data() + 60 * query.a.q_row, 16, bad);
    std::fill_n(query.dout.data() + 60 * query.a.out_row, 16, bad);
    attention_forward(query.a);
    query.backward();
    for (int64_t i = 0; i < 16; ++i) {
      for (int64_t t = 0; t < S; ++t) {
        const int64_t out = t * clean.a.out_row + i, dq = t * clean.a.q_row + i, dk = t * clean.a.k_row + i;
        if (t < 120) {
          ASSERT_NEAR(keys.out[out], clean.out[out], 1e-6) << t;
          ASSERT_NEAR(keys.dq[dq], clean.dq[dq], 1e-6) << t;
        }
        if (t != 60) {
          ASSERT_NEAR(query.out[out], clean.out[out], 1e-6) << t;
          ASSERT_NEAR(query.dq[dq], clean.dq[dq], 1e-6) << t;
        }
        if (t > 60) {
          ASSERT_NEAR(query.dkv[dk], clean.dkv[dk], 1e-5) << t;
          ASSERT_NEAR(query.dkv[dk + 16], clean.dkv[dk + 16], 1e-5) << t;
        }
      }
      EXPECT_FALSE(std::isfinite(keys.out[121 * clean.a.out_row + i]));  // what is seen does spread
      EXPECT_FALSE(std::isfinite(query.dkv[i]));
    }
  }
}

TEST(Attention, B36ChunksEqualTheWhole) {
  constexpr int64_t T = 7;
  Case whole({.batch = 1, .queries = T, .keys = T, .heads = 2, .kv_heads = 1, .head_dim = 8, .causal = true});
  whole.forward();
  for (const std::vector<int64_t>& chunks : {std::vector<int64_t>{3, 4}, {1, 1, 1, 1, 1, 1, 1}, {2, 1, 4}}) {
    std::vector<float> out(whole.out.size());
    int64_t first = 0;
    for (const int64_t n : chunks) {
      Attention a = whole.a;
      a.queries = n;
      a.q += first * a.q_row;
      a.out = out.data() + first * a.out_row;
      a.lse = nullptr;
      a.first_query = first;
      first += n;
      a.keys = first;
      attention_forward(a);
    }
    for (int64_t t = 0; t < T; ++t) {
      for (int64_t i = 0; i < 16; ++i)
        EXPECT_NEAR(out[t * whole.a.out_row + i], whole.out[t * whole.a.out_row + i], 1e-6);
    }
  }
  Case({.batch = 1, .queries = 1, .keys = 16, .heads = 2, .head_dim = 8, .causal = true, .first_query = 15})
      .expect_all();
}

TEST(Attention, Bf16Cache) {
  for (const int64_t queries : {1, 3, 140}) {
    const auto mask = mask_of(2, 600, [&](int64_t b, int64_t s) { return b == 0 ? s >= 5 : s % 7 != 2; });
    Case c({.batch = 2,
            .queries = queries,
            .keys = 600,
            .heads = 4,
            .kv_heads = 2,
            .head_dim = 20,
            .causal = true,
            .first_query = 600 - queries,
            .key_mask = mask.data(),
            .mask_row = 600});
    std::vector<BFloat16> rounded(c.kv.size());
    for (size_t i = 0; i < c.kv.size(); ++i) rounded[i] = to_bf16(c.kv[i]);
    for (auto* array : {&c.x.k, &c.x.v}) {
      for (double& x : *array) x = to_float(to_bf16(static_cast<float>(x)));
    }
    c.a.k = rounded.data();
    c.a.v = rounded.data() + 2 * 20;
    c.a.kv_dtype = DType::bf16;
    c.forward();
    c.expect_forward();
  }
}

TEST(Attention, DropoutDropsItsShareAndKeepsTheMean) {
  constexpr int64_t S = 200;
  Case c({.batch = 2,
          .queries = S,
          .keys = S,
          .heads = 2,
          .head_dim = 4,
          .dropout = 0.25f,
          .dropout_key = {11, 12}});
  for (double& v : c.x.v) v = 1.0;
  c.copy_in();
  c.expect_all();
  double sum = 0;
  for (int64_t n = 0; n < 2 * S; ++n) sum += c.out[n * c.a.out_row] + c.out[n * c.a.out_row + 4];
  EXPECT_NEAR(sum / (4 * S), 1.0, 0.01);  // 800 rows of about 70 effective keys: a standard error of 0.0025
  const std::vector<float> first = c.out;
  attention_forward(c.a);
  for (size_t i = 0; i < first.size(); ++i)
    ASSERT_EQ(std::isnan(first[i]) ? 0 : first[i], std::isnan(first[i]) ? 0 : c.out[i]);
}

TEST(Attention, LargeScoresStayFinite) {
  Case c({.batch = 1,
          .queries = 30,
          .keys = 600,
          .heads = 1,
          .head_dim = 8,
          .scale = 100.0f,
          .causal = true,
          .first_query = 570});
  c.forward();
  c.expect_forward(1e-3);  // scores near 1000 lose 1e-4 in f32
}

TEST(Attention, SameBitsEachTime) {
  Case c(
      {.batch = 2, .queries = 130, .keys = 130, .heads = 4, .kv_heads = 2, .head_dim = 16, .causal = true});
  c.forward();
  c.backward();
  const auto out = c.lse;
  const auto dkv = c.dkv;
  for (int run = 0; run < 3; ++run) {
    attention_forward(c.a);
    c.backward();
    ASSERT_EQ(0, std::memcmp(out.data(), c.lse.data(), out.size() * sizeof(float)));
    ASSERT_EQ(0, std::memcmp(dkv.data(), c.dkv.data(), dkv.size() * sizeof(float)));
  }
}

// The oracle's own backward against central differences in f64.
TEST(Attention, OracleGradients) {
  const std::vector<float> slopes = {0.5f, 0.25f};
  const auto mask = mask_of(1, 6, [](int64_t, int64_t s) { return s != 2; });
  Case c({.batch = 1,
          .queries = 5,
          .keys = 6,
          .heads = 2,
          .kv_heads = 1,
          .head_dim = 3,
          .value_dim = 2,
          .causal = true,
          .first_query = 1,
          .window = 4,
          .key_mask = mask.data(),
          .mask_row = 6,
          .alibi_slopes = slopes.data(),
          .dropout = 0.3f,
          .dropout_key = {1, 2}});
  const auto loss = [&] {
    reference::attention_forward(c.a, c.x);
    double sum = 0;
    for (size_t i = 0; i < c.x.out.size(); ++i) sum += c.x.dout[i] * c.x.out[i];
    return sum;
  };
  loss();
  reference::attention_backward(c.a, c.x);
  const auto expect_gradient = [&](std::vector<double>& values, const std::vector<double>& gradient) {
    for (size_t i = 0; i < values.size(); ++i) {
      const double kept = values[i];
      values[i] = kept + 1e-5;
      const double above = loss();
      values[i] = kept - 1e-5;
      const double below = loss();
      values[i] = kept;
      ASSERT_NEAR((above - below) / 2e-5, gradient[i], 1e-8) << i;
    }
  };
  expect_gradient(c.x.q, c.x.dq);
  expect_gradient(c.x.k, c.x.dk);
  expect_gradient(c.x.v, c.x.dv);
}

}  // namespace
}  // namespace plumb
