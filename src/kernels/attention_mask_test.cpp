#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "kernels/attention.h"
#include "kernels/attention_case.h"

namespace plumb {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(Attention, B38WindowHoldsExactlyWKeys) {
  constexpr int64_t T = 12;
  for (const int64_t window : {1, 4, 100}) {
    AttentionCase c(
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
  AttentionCase(
      {.batch = 1, .queries = 150, .keys = 150, .heads = 1, .head_dim = 8, .causal = true, .window = 17})
      .expect_all();
  AttentionCase({.batch = 1, .queries = 140, .keys = 140, .heads = 2, .head_dim = 8, .window = 9})
      .expect_all();  // both sides
}

// Left, right and inner padding; together with causal and window some queries see nothing.
TEST(Attention, B32RowsWithoutKeysAreZero) {
  constexpr int64_t B = 4, S = 20;
  const auto mask = mask_of(B, S, [](int64_t b, int64_t s) {
    return b == 0 ? s >= 6 : b == 1 ? s < 9 : b == 2 ? s % 5 == 3 : false;
  });
  for (const int64_t window : {0, 3}) {
    AttentionCase c({.batch = B,
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

// Texts packed into one row see themselves alone, in tiles of every kind; padding comes last.
TEST(Attention, PackedTextsDoNotSeeEachOther) {
  constexpr int64_t B = 2, T = 150;
  std::vector<int32_t> first(B * T);
  for (int64_t i = 0; i < B * T; ++i) {
    const int64_t t = i % T;
    first[i] = static_cast<int32_t>(i < T ? (t < 3     ? 0
                                             : t < 77  ? 3
                                             : t < 78  ? 77
                                             : t < 140 ? 78
                                                       : 140)
                                          : t / 5 * 5);
  }
  const auto mask = mask_of(B, T, [](int64_t b, int64_t s) { return b == 0 ? s < 140 : s != 6; });
  for (const int64_t window : {0, 9}) {
    for (const int64_t kv_heads : {1, 2}) {
      AttentionCase c({.batch = B,
                       .queries = T,
                       .keys = T,
                       .heads = 2,
                       .kv_heads = kv_heads,
                       .head_dim = 8,
                       .causal = true,
                       .window = window,
                       .key_mask = mask.data(),
                       .mask_row = T,
                       .first_keys = first.data()});
      c.expect_all();
      // The text of slots 3 to 76 by itself.
      Attention alone = c.a;
      std::vector<float> out(74 * c.a.out_row);
      alone.batch = 1;
      alone.queries = alone.keys = 74;
      alone.q += 3 * c.a.q_row;
      alone.k = static_cast<const float*>(c.a.k) + 3 * c.a.k_row;
      alone.v = static_cast<const float*>(c.a.v) + 3 * c.a.v_row;
      alone.first_keys = nullptr;
      alone.key_mask = nullptr;
      alone.out = out.data();
      alone.lse = nullptr;
      attention_forward(alone);
      for (int64_t t = 0; t < 74; ++t) {
        for (int64_t e = 0; e < 16; ++e)
          EXPECT_NEAR(out[t * c.a.out_row + e], c.out[(3 + t) * c.a.out_row + e], 1e-6);
      }
    }
  }
}

// B33, B35: masks that hide a pair twice are the same as one; 1 is visible.
TEST(Attention, B33MasksCombineAsBooleans) {
  const auto late = mask_of(1, 10, [](int64_t, int64_t s) { return s < 4; });
  AttentionCase both({.batch = 1,
                      .queries = 4,
                      .keys = 10,
                      .heads = 1,
                      .head_dim = 4,
                      .causal = true,
                      .key_mask = late.data(),
                      .mask_row = 10});
  AttentionCase one({.batch = 1, .queries = 4, .keys = 10, .heads = 1, .head_dim = 4, .causal = true});
  both.forward();
  one.forward();
  EXPECT_EQ(0, std::memcmp(both.lse.data(), one.lse.data(), 4 * sizeof(float)));
  const auto single = mask_of(1, 10, [](int64_t, int64_t s) { return s == 7; });
  AttentionCase only({.batch = 1,
                      .queries = 3,
                      .keys = 10,
                      .heads = 1,
                      .head_dim = 4,
                      .key_mask = single.data(),
                      .mask_row = 10});
  only.forward();
  for (int64_t e = 0; e < 4; ++e) EXPECT_FLOAT_EQ(only.out[e], only.x.v[7 * 4 + e]);
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
  AttentionCase clean(shape);
  clean.expect_all();
  clean.backward();
  for (const float bad : {kNaN, std::numeric_limits<float>::infinity()}) {
    AttentionCase keys(shape);
    for (const int64_t s : {31, 120, 145}) {  // padding, a late key, padding
      std::fill_n(keys.kv.data() + s * keys.a.k_row, 32, bad);
    }
    attention_forward(keys.a);
    keys.backward();
    AttentionCase query(shape);
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

}  // namespace
}  // namespace plumb
