// The slow oracle of attention: the definition in f64, one pair at a time, with whole rows of weights.
#pragma once

#include <cmath>
#include <vector>

#include "kernels/attention.h"
#include "plumb/config_fields.h"

namespace plumb::reference {

// Dense copies in f64: q and out (B, T, H, ·), k and v (B, S, K, ·), lse (B, H, T).
struct AttentionArrays {
  std::vector<double> q, k, v, out, lse;
  std::vector<double> dout, dq, dk, dv, dsinks;
};

inline bool visible(const Attention& a, int64_t b, int64_t t, int64_t s) {
  const int64_t i = a.first_query + t;
  if (a.causal && s > i) return false;
  if (a.window > 0 && std::abs(i - s) >= a.window) return false;
  if (a.first_keys && s < a.first_keys[b * a.queries + t]) return false;
  return !a.key_mask || a.key_mask[b * a.mask_row + s] != 0;
}

// What dropout multiplies the weight of a pair by.
inline double dropout_factor(const Attention& a, int64_t b, int64_t h, int64_t t, int64_t s) {
  if (a.dropout == 0) return 1.0;
  const uint64_t pair = static_cast<uint64_t>(((b * a.heads + h) * a.queries + t) * a.keys + s);
  const uint32_t word = random_block(a.dropout_key, pair / 4)[pair % 4];
  return word < static_cast<double>(a.dropout) * 0x1p32 ? 0.0 : 1.0 / (1.0 - static_cast<double>(a.dropout));
}

// q . k of a pair, scaled.
inline double raw_score(const Attention& a, const AttentionArrays& x, int64_t b, int64_t h, int64_t t,
                        int64_t s) {
  const int64_t group = a.heads / a.kv_heads, D = a.head_dim;
  double score = 0;
  for (int64_t d = 0; d < D; ++d) {
    score += x.q[((b * a.queries + t) * a.heads + h) * D + d] *
             x.k[((b * a.keys + s) * a.kv_heads + h / group) * D + d];
  }
  return a.scale * score;
}

// Visits every (b, h, t) that sees a key, with its weights before dropout (S), 0 where not visible.
template <class Visit>
void each_row(const Attention& a, AttentionArrays& x, const Visit& visit) {
  x.lse.assign(a.batch * a.heads * a.queries, 0.0);
  for (int64_t b = 0; b < a.batch; ++b) {
    for (int64_t h = 0; h < a.heads; ++h) {
      for (int64_t t = 0; t < a.queries; ++t) {
        std::vector<double> weights(a.keys, 0.0);
        double max = a.sinks ? a.sinks[h] : -INFINITY;
        for (int64_t s = 0; s < a.keys; ++s) {
          if (!visible(a, b, t, s)) continue;
          weights[s] = raw_score(a, x, b, h, t, s);
          if (a.softcap > 0) weights[s] = a.softcap * std::tanh(weights[s] / a.softcap);
          if (a.alibi_slopes)
            weights[s] -= a.alibi_slopes[h] * std::abs(static_cast<double>(a.first_query + t - s));
          max = std::max(max, weights[s]);
        }
        double sum = a.sinks ? std::exp(a.sinks[h] - max) : 0;
        for (int64_t s = 0; s < a.keys; ++s) {
          weights[s] = visible(a, b, t, s) ? std::exp(weights[s] - max) : 0.0;
          sum += weights[s];
        }
        x.lse[(b * a.heads + h) * a.queries + t] = max + std::log(sum);
        if (sum == 0) continue;
        for (double& w : weights) w /= sum;
        visit(b, h, t, weights);
      }
    }
  }
}

inline void attention_forward(const Attention& a, AttentionArrays& x) {
  const int64_t group = a.heads / a.kv_heads, E = a.value_dim;
  x.out.assign(a.batch * a.queries * a.heads * E, 0.0);
  each_row(a, x, [&](int64_t b, int64_t h, int64_t t, const std::vector<double>& weights) {
    for (int64_t s = 0; s < a.keys; ++s) {
      if (!visible(a, b, t, s)) continue;
      const double w = weights[s] * dropout_factor(a, b, h, t, s);
      for (int64_t e = 0; e < E; ++e) {
        x.out[((b * a.queries + t) * a.heads + h) * E + e] +=
            w * x.v[((b * a.keys + s) * a.kv_heads + h / group) * E + e];
      }
    }
  });
}

// With w = softmax(z), c the factor of dropout and u_s = c_s (dout · v_s): dz_s = w_s (u_s - sum of w u).
inline void attention_backward(const Attention& a, AttentionArrays& x) {
  const int64_t group = a.heads / a.kv_heads, D = a.head_dim, E = a.value_dim;
  x.dq.assign(x.q.size(), 0.0);
  x.dk.assign(x.k.size(), 0.0);
  x.dv.assign(x.v.size(), 0.0);
  x.dsinks.assign(a.heads, 0.0);
  each_row(a, x, [&](int64_t b, int64_t h, int64_t t, const std::vector<double>& weights) {
    const int64_t row = (b * a.queries + t) * a.heads + h;
    std::vector<double> u(a.keys, 0.0);
    double mean = 0;
    for (int64_t s = 0; s < a.keys; ++s) {
      if (!visible(a, b, t, s)) continue;
      const int64_t key = (b * a.keys + s) * a.kv_heads + h / group;
      const double factor = dropout_factor(a, b, h, t, s);
      for (int64_t e = 0; e < E; ++e) {
        u[s] += factor * x.dout[row * E + e] * x.v[key * E + e];
        x.dv[key * E + e] += weights[s] * factor * x.dout[row * E + e];
      }
      mean += weights[s] * u[s];
    }
    if (a.sinks) x.dsinks[h] -= std::exp(a.sinks[h] - x.lse[(b * a.heads + h) * a.queries + t]) * mean;
    for (int64_t s = 0; s < a.keys; ++s) {
      if (!visible(a, b, t, s)) continue;
      const int64_t key = (b * a.keys + s) * a.kv_heads + h / group;
      double dz = a.scale * weights[s] * (u[s] - mean);
      if (a.softcap > 0) dz *= 1 - std::pow(std::tanh(raw_score(a, x, b, h, t, s) / a.softcap), 2);
      for (int64_t d = 0; d < D; ++d) {
        x.dq[row * D + d] += dz * x.k[key * D + d];
        x.dk[key * D + d] += dz * x.q[row * D + d];
      }
    }
  });
}

}  // namespace plumb::reference
