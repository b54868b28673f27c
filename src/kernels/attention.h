// Scaled dot-product attention in tiles: softmax(scale · Q Kᵀ + bias) V without ever holding (T, S).
// Online softmax: Milakov, Gimelshein, "Online normalizer calculation for softmax" (2018); tiles and their
// backward: Dao, Fu, Ermon, Rudra, Ré, "FlashAttention" (2022).
//
// A query that sees no key gives exactly 0 and no gradient (but for a sink's, which is then 0 too). A masked
// key or value is never read into a sum: a NaN there does not spread. All sums are f32. Threads: all OpenMP
// threads; the split depends on shapes and thread count only, and results are the same bits each time.
// Memory: scratch of fixed size per thread, from the tensor pool.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "tensor/dtype.h"

namespace plumb {

// What is read and which pairs see each other. Elements:
//   q (b, t, h, d) at q + (b * queries + t) * q_row + h * head_dim + d            out, lse: see below
//   k (b, s, g, d) at k + (b * kv_rows + s) * k_row + g * head_dim + d            g = h / (heads / kv_heads)
//   v (b, s, g, e) at v + (b * kv_rows + s) * v_row + g * value_dim + e
// A pair (t, s) is visible when every one of these holds; i = first_query + t is the query's own key slot:
//   causal: s <= i;   window W > 0: |i - s| < W (so W keys with causal, the query's own among them);
//   key_mask: key_mask[b * mask_row + s] != 0;   first_keys: s >= first_keys[b * queries + t].
struct Attention {
  int64_t batch = 0;                    // B
  int64_t queries = 0, keys = 0;        // T, S: either may be 0
  int64_t heads = 0, kv_heads = 0;      // H, K: H is a multiple of K
  int64_t head_dim = 0, value_dim = 0;  // D of q and k, and of v and out
  const float* q = nullptr;
  int64_t q_row = 0;
  const void* k = nullptr;
  const void* v = nullptr;
  int64_t k_row = 0, v_row = 0;
  int64_t kv_rows = 0;          // rows from one sequence of k (and v) to the next: S, or a cache's capacity
  DType kv_dtype = DType::f32;  // f32 or bf16, of k and v; the backward takes f32 only
  float* out = nullptr;         // (b, t, h, e) at out + (b * queries + t) * out_row + h * value_dim + e
  int64_t out_row = 0;
  float* lse = nullptr;  // (B, H, T): log of the sum of exponentials, -inf where no key is visible; or null
  float scale = 1.0f;
  float softcap = 0.0f;  // scores become softcap * tanh(score / softcap); 0: none. Not with ALiBi. Gemma 2,
                         // 2408.00118
  bool causal = false;
  int64_t first_query = 0;            // key slot of query 0: the length of what the cache held before
  int64_t window = 0;                 // 0: none
  const uint8_t* key_mask = nullptr;  // (B, S): 1 visible, 0 not; or null
  int64_t mask_row = 0;
  // (B, T): the first slot that a query sees, never falling with t, so that texts packed into one row do not
  // see each other; causal only. Or null.
  const int32_t* first_keys = nullptr;
  const float* alibi_slopes =
      nullptr;                   // (H): adds -slope * |i - s|; or null. Press, Smith, Lewis, "ALiBi" (2021)
  const float* sinks = nullptr;  // (H): a score that takes its share of the weights and has no value; or null
  float dropout = 0.0f;          // of the weights after the softmax; kept ones are divided by 1 - dropout
  RandomKey dropout_key;         // pair i = ((b * H + h) * T + t) * S + s is dropped when word i % 4 of
                                 // random_block(key, i / 4) is below dropout * 2^32
};

void attention_forward(const Attention& a);

// Gradients for the same Attention: reads q, k, v, out, lse (as the forward left them) and dout; writes dq,
// dk, dv, or adds to them. Rows as for q, k, v and out, so each may be columns of one fused buffer. f32 keys
// and values only.
struct AttentionGradient {
  const float* dout = nullptr;
  int64_t dout_row = 0;
  float* dq = nullptr;
  int64_t dq_row = 0;
  float* dk = nullptr;
  int64_t dk_row = 0;  // dk and dv: kv_rows rows from one sequence to the next; rows from S on are left alone
  float* dv = nullptr;
  int64_t dv_row = 0;
  bool add_dq = false, add_dk = false, add_dv = false;
  float* dsinks = nullptr;  // (H), or null
  bool add_dsinks = false;
};

void attention_backward(const Attention& a, const AttentionGradient& g);

}  // namespace plumb
