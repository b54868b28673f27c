#include "kernels/attention.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cstring>
#include <functional>
#include <limits>

#include "kernels/attention_case.h"
#include "tensor/memory.h"

namespace plumb {
namespace {

TEST(Attention, OddSizes) {
  AttentionCase({.batch = 1, .queries = 1, .keys = 1, .heads = 1, .head_dim = 1}).expect_all();
  AttentionCase({.batch = 2, .queries = 5, .keys = 7, .heads = 3, .head_dim = 10, .value_dim = 6})
      .expect_all();
  AttentionCase({.batch = 1, .queries = 37, .keys = 37, .heads = 2, .head_dim = 16, .causal = true})
      .expect_all();
  AttentionCase({.batch = 1, .queries = 131, .keys = 517, .heads = 1, .head_dim = 24}).expect_all();
  AttentionCase({.batch = 1, .queries = 300, .keys = 300, .heads = 1, .head_dim = 8, .causal = true})
      .expect_all();
  AttentionCase({.batch = 1, .queries = 1, .keys = 600, .heads = 4, .head_dim = 33}).expect_all();
  AttentionCase({.batch = 1, .queries = 1, .keys = 3, .heads = 70, .kv_heads = 1, .head_dim = 100})
      .expect_all();
}

// More keys than one tile has, seen from both sides of its end, by several query heads.
TEST(Attention, SeveralTilesOfKeys) {
  const auto mask = mask_of(1, 600, [](int64_t, int64_t s) { return s < 90 || s % 4 != 1; });
  for (const int64_t window : {0, 70}) {
    for (const uint8_t* key_mask : {static_cast<const uint8_t*>(nullptr), mask.data()}) {
      AttentionCase({.batch = 1,
                     .queries = 560,
                     .keys = 600,
                     .heads = 2,
                     .kv_heads = 1,
                     .head_dim = 5,
                     .causal = true,
                     .first_query = 40,
                     .window = window,
                     .key_mask = key_mask,
                     .mask_row = 600})
          .expect_all();
    }
  }
}

TEST(Attention, EveryInstructionSet) {
  for_each_target([] {
    AttentionCase({.batch = 1,
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
  AttentionCase marked({.batch = 1, .queries = 3, .keys = 3, .heads = 4, .kv_heads = 2, .head_dim = 4});
  for (size_t i = 0; i < marked.x.v.size(); ++i) marked.x.v[i] = static_cast<double>(i / 4 % 2);
  marked.copy_in();
  marked.forward();
  for (int64_t h = 0; h < 4; ++h) EXPECT_FLOAT_EQ(marked.out[h * 4], h / 2);
  AttentionCase({.batch = 2,
                 .queries = 33,
                 .keys = 40,
                 .heads = 6,
                 .kv_heads = 2,
                 .head_dim = 8,
                 .causal = true,
                 .first_query = 7})
      .expect_all();
  AttentionCase({.batch = 2, .queries = 9, .keys = 9, .heads = 5, .kv_heads = 1, .head_dim = 8}).expect_all();
  AttentionCase({.batch = 3,
                 .queries = 1,
                 .keys = 9,
                 .heads = 8,
                 .kv_heads = 2,
                 .head_dim = 8,
                 .causal = true,
                 .first_query = 6})
      .expect_all();
}

TEST(Attention, AlibiSlopes) {
  const std::vector<float> slopes = {0.5f, 0.0625f};
  AttentionCase({.batch = 1,
                 .queries = 40,
                 .keys = 60,
                 .heads = 2,
                 .head_dim = 8,
                 .causal = true,
                 .first_query = 20,
                 .alibi_slopes = slopes.data()})
      .expect_all();
  const auto mask = mask_of(1, 60, [](int64_t, int64_t s) { return s % 3 != 1; });
  AttentionCase({.batch = 1,
                 .queries = 40,
                 .keys = 60,
                 .heads = 2,
                 .head_dim = 8,
                 .key_mask = mask.data(),
                 .mask_row = 60,
                 .alibi_slopes = slopes.data()})
      .expect_all();
}

// Caps small enough that every score feels them; sinks below, among and above the scores.
TEST(Attention, SoftcapAndSinks) {
  const std::vector<float> sinks = {-3.0f, 0.5f, 4.0f, 1.5f};
  const auto mask = mask_of(2, 600, [](int64_t b, int64_t s) { return b == 0 ? s > 3 : s % 5 != 1; });
  for (const float softcap : {0.0f, 0.7f}) {
    for (const float* scores : {static_cast<const float*>(nullptr), sinks.data()}) {
      for (const int64_t queries : {1, 6, 70}) {
        AttentionCase({.batch = 2,
                       .queries = queries,
                       .keys = 600,
                       .heads = 4,
                       .kv_heads = 2,
                       .head_dim = 6,
                       .softcap = softcap,
                       .causal = true,
                       .first_query = 600 - queries,
                       .window = queries == 6 ? 40 : 0,
                       .key_mask = queries == 70 ? nullptr : mask.data(),
                       .mask_row = 600,
                       .sinks = scores,
                       .dropout = queries == 6 ? 0.2f : 0.0f,
                       .dropout_key = {3, 4}})
            .expect_all();
      }
    }
  }
  const std::vector<uint8_t> hidden(2 * 5);
  AttentionCase({.batch = 2,
                 .queries = 5,
                 .keys = 5,
                 .heads = 4,
                 .head_dim = 4,
                 .key_mask = hidden.data(),
                 .mask_row = 5,
                 .sinks = sinks.data()})
      .expect_all();
}

TEST(Attention, EmptyQueriesAndKeys) {
  AttentionCase({.batch = 2, .queries = 0, .keys = 5, .heads = 2, .head_dim = 4}).expect_all();
  AttentionCase({.batch = 2, .queries = 3, .keys = 0, .heads = 2, .head_dim = 4}).expect_all();
  AttentionCase({.batch = 0, .queries = 3, .keys = 3, .heads = 2, .head_dim = 4}).expect_all();
}

TEST(Attention, B36ChunksEqualTheWhole) {
  constexpr int64_t T = 7;
  AttentionCase whole(
      {.batch = 1, .queries = T, .keys = T, .heads = 2, .kv_heads = 1, .head_dim = 8, .causal = true});
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
  AttentionCase(
      {.batch = 1, .queries = 1, .keys = 16, .heads = 2, .head_dim = 8, .causal = true, .first_query = 15})
      .expect_all();
}

TEST(Attention, Bf16Cache) {
  for (const int64_t queries : {1, 3, 140}) {
    const auto mask = mask_of(2, 600, [&](int64_t b, int64_t s) { return b == 0 ? s >= 5 : s % 7 != 2; });
    AttentionCase c({.batch = 2,
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
  AttentionCase c({.batch = 2,
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
  AttentionCase c({.batch = 1,
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
  AttentionCase c(
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

// (T, T) in f32 would be 9 MB a head; what a thread holds does not grow with T.
TEST(Attention, MemoryDoesNotGrowWithLength) {
  const auto peak = [](int64_t length) {
    AttentionCase c(
        {.batch = 1, .queries = length, .keys = length, .heads = 1, .head_dim = 4, .causal = true});
    const size_t before = live_memory();
    reset_peak_memory();
    attention_forward(c.a);
    c.dq.resize(c.q.size());
    c.dkv.resize(c.kv.size());
    attention_backward(c.a, {.dout = c.dout.data(),
                             .dout_row = c.a.out_row,
                             .dq = c.dq.data(),
                             .dq_row = c.a.q_row,
                             .dk = c.dkv.data(),
                             .dk_row = c.a.k_row,
                             .dv = c.dkv.data() + 4,
                             .dv_row = c.a.v_row});
    return peak_memory() - before;
  };
  const size_t at_768 = peak(768);
  EXPECT_GT(at_768, 0u);
  EXPECT_EQ(peak(1536), at_768);
}

// Each row is worked out by one thread, and the keys are cut the same way for all, so that the number of
// threads does not show.
TEST(Attention, SameBitsWithAnyNumberOfThreads) {
  const int threads = omp_get_max_threads();
  for (const int64_t length : {150, 700}) {
    AttentionCase c({.batch = 1,
                     .queries = length,
                     .keys = length,
                     .heads = 3,
                     .head_dim = 8,
                     .causal = true,
                     .window = length == 700 ? 90 : 0});
    c.forward();
    c.backward();
    const auto out = c.out, dkv = c.dkv;
    for (const int n : {1, 3, 5}) {
      omp_set_num_threads(n);
      attention_forward(c.a);
      c.backward();
      EXPECT_EQ(0, std::memcmp(out.data(), c.out.data(), out.size() * sizeof(float))) << n;
      EXPECT_EQ(0, std::memcmp(dkv.data(), c.dkv.data(), dkv.size() * sizeof(float))) << n;
    }
    omp_set_num_threads(threads);
  }
}

// The oracle's own backward against central differences in f64.
void expect_oracle_gradients(Attention shape) {
  const std::vector<float> slopes = {0.5f, 0.25f};
  const auto mask = mask_of(1, 6, [](int64_t, int64_t s) { return s != 2; });
  shape.key_mask = mask.data();
  if (shape.softcap == 0) shape.alibi_slopes = slopes.data();
  AttentionCase c(shape);
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

TEST(Attention, OracleGradients) {
  Attention shape{.batch = 1,
                  .queries = 5,
                  .keys = 6,
                  .heads = 2,
                  .kv_heads = 1,
                  .head_dim = 3,
                  .value_dim = 2,
                  .causal = true,
                  .first_query = 1,
                  .window = 4,
                  .mask_row = 6,
                  .dropout = 0.3f,
                  .dropout_key = {1, 2}};
  expect_oracle_gradients(shape);
  const std::vector<float> sinks = {0.4f, -0.3f};
  shape.softcap = 0.6f;
  shape.sinks = sinks.data();
  expect_oracle_gradients(shape);
}

}  // namespace
}  // namespace plumb
