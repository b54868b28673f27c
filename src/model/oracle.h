// The slow oracle of whole models, for tests: plain loops over any scalar, written from the formulas and not
// from the engine. With std::complex<double> it gives exact derivatives by the complex step (Squire and Trapp
// 1998): d loss / d theta = Im loss(theta + i h) / h, with h so small that nothing is rounded.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <map>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "nn/attention.h"
#include "plumb/config.h"

namespace plumb::oracle {

using Real = double;
using Dual = std::complex<double>;

inline Real real(Real x) {
  return x;
}
inline Real real(Dual x) {
  return x.real();
}
inline Real erf_of(Real x) {
  return std::erf(x);
}
inline Dual erf_of(Dual x) {
  return {std::erf(x.real()), x.imag() * 2 / std::sqrt(std::numbers::pi) * std::exp(-x.real() * x.real())};
}

template <class S>
struct Matrix {
  int64_t rows = 0, width = 0;
  std::vector<S> v;
  Matrix() = default;
  Matrix(int64_t r, int64_t w) : rows(r), width(w), v(r * w) {}
  S& at(int64_t r, int64_t c) { return v[r * width + c]; }
  const S& at(int64_t r, int64_t c) const { return v[r * width + c]; }
};

template <class S>
struct Weights {
  std::map<std::string, std::vector<S>> values;
  const std::vector<S>& get(const std::string& name) const {
    PLUMB_CHECK(values.contains(name), "oracle lacks {}", name);
    return values.at(name);
  }
  bool has(const std::string& name) const { return values.contains(name); }
};

struct Batch {
  int64_t batch = 0, length = 0;
  std::vector<int> ids, mask;  // (B, T); mask 1 real
};

template <class S>
class Model {
 public:
  Model(const ModelConfig& config, const Weights<S>& weights) : c_(config), w_(weights) {}

  Matrix<S> encode(const Batch& b) {
    return stack(Side::encoder, embed(Side::encoder, b), b, nullptr, nullptr);
  }
  Matrix<S> decode(const Batch& b, const Matrix<S>* memory, const Batch* source) {
    const Matrix<S> y = stack(Side::decoder, embed(Side::decoder, b), b, memory, source);
    return c_.embedding_width > 0 ? linear(y, "embedding_out", c_.embedding_width, false) : y;
  }
  Matrix<S> logits(Matrix<S> h) const {
    for (S& v : h.v) v *= c_.logits_scale / width_ratio(c_);
    if (c_.head_transform) {
      h = linear(h, "head.dense", c_.width, false);
      for (S& x : h.v) x = act(x, c_.layer.activation);
      h = norm(h, "head.norm", c_.layer, {});
    }
    const std::string table = !c_.tied_embeddings                ? "head.weight"
                              : w_.has("token_embedding.weight") ? "token_embedding.weight"
                                                                 : "decoder.token_embedding.weight";
    const auto& e = w_.get(table);
    Matrix<S> y(h.rows, c_.vocab_size);
    for (int64_t r = 0; r < h.rows; ++r) {
      for (int64_t v = 0; v < c_.vocab_size; ++v) {
        S sum = c_.head_bias ? w_.get("head.bias")[v] : S(0);
        for (int64_t i = 0; i < h.width; ++i) sum += h.at(r, i) * e[v * h.width + i];
        if (w_.has("head.scale")) sum *= w_.get("head.scale")[v] * std::sqrt(static_cast<Real>(c_.width));
        if (c_.logits_bias) sum += w_.get("head.logits_bias")[v];
        y.at(r, v) = capped(sum, c_.logits_softcap);
      }
    }
    return y;
  }
  // Scores of classes: of every token, or of the rows that sequences end in.
  Matrix<S> scores(const Matrix<S>& h, int64_t classes) const {
    const auto& w = w_.get("head.weight");
    Matrix<S> y(h.rows, classes);
    for (int64_t r = 0; r < h.rows; ++r) {
      for (int64_t n = 0; n < classes; ++n) {
        y.at(r, n) = c_.head_bias ? w_.get("head.bias")[n] : S(0);
        for (int64_t i = 0; i < h.width; ++i) y.at(r, n) += h.at(r, i) * w[n * h.width + i];
      }
    }
    return y;
  }
  static Matrix<S> last_rows(const Matrix<S>& h, const Batch& b, int pad) {
    Matrix<S> y(b.batch, h.width);
    for (int64_t row = 0; row < b.batch; ++row) {
      int64_t last = 0;
      for (int64_t t = 0; t < b.length; ++t) last = b.ids[row * b.length + t] != pad ? t : last;
      for (int64_t i = 0; i < h.width; ++i) y.at(row, i) = h.at(row * b.length + last, i);
    }
    return y;
  }
  // Mean over targets >= 0 of smoothed cross-entropy plus z-loss, plus the experts' balance.
  S loss(const Matrix<S>& logits, const std::vector<int>& targets, Real smoothing, Real z) const {
    S total = 0;
    int count = 0;
    for (int64_t r = 0; r < logits.rows; ++r) {
      if (targets[r] < 0) continue;
      ++count;
      Real top = -1e300;
      for (int64_t v = 0; v < logits.width; ++v) top = std::max(top, real(logits.at(r, v)));
      S sum = 0, mean = 0;
      for (int64_t v = 0; v < logits.width; ++v) {
        sum += std::exp(logits.at(r, v) - top);
        mean += logits.at(r, v) / static_cast<Real>(logits.width);
      }
      const S log_z = std::log(sum) + top;
      total += (1 - smoothing) * (log_z - logits.at(r, targets[r])) + smoothing * (log_z - mean) +
               z * log_z * log_z;
    }
    S balance = balance_;
    for (size_t e = 0; e < assigned_.size(); ++e)
      balance += static_cast<Real>(assigned_.size()) * assigned_[e] / routed_ * probability_[e] / routed_;
    return count ? total / static_cast<Real>(count) + c_.router_aux * balance : S(0);
  }

 private:
  static S capped(S x, Real cap) { return cap > 0 ? cap * std::tanh(x / cap) : x; }
  static S act(S x, Activation a) {
    switch (a) {
      case Activation::relu:
        return real(x) > 0 ? x : S(0);
      case Activation::gelu:
        return 0.5 * x * (1.0 + erf_of(x / std::sqrt(2.0)));
      case Activation::gelu_tanh:
        return 0.5 * x * (1.0 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
      case Activation::silu:
        return x / (1.0 + std::exp(-x));
      case Activation::relu_squared:
        return real(x) > 0 ? x * x : S(0);
      case Activation::gelu_sigmoid:
        return x / (1.0 + std::exp(-1.702 * x));
    }
    return x;
  }

  // Of a real token among the real ones; padding behind them goes on, up to the last one of the longest row.
  static int position(const Batch& b, int64_t row, int64_t t) {
    int longest = 0, before = 0, behind = 0;
    for (int64_t r = 0; r < b.batch; ++r) {
      const auto of = b.mask.begin() + r * b.length;
      longest = std::max(longest, static_cast<int>(std::count(of, of + b.length, 1)));
    }
    for (int64_t i = 0; i < b.length; ++i) {
      before += i < t && b.mask[row * b.length + i];
      behind += i > t && b.mask[row * b.length + i];
    }
    if (b.mask[row * b.length + t]) return before;
    if (behind > 0 || before == 0) return 0;
    int64_t last = t;
    while (!b.mask[row * b.length + last]) --last;
    return std::min(before + static_cast<int>(t - last) - 1, longest - 1);
  }

  Matrix<S> embed(Side side, const Batch& b) const {
    const std::string s = side == Side::encoder ? "encoder" : "decoder";
    const auto& table =
        w_.get(w_.has("token_embedding.weight") ? "token_embedding.weight" : s + ".token_embedding.weight");
    const int64_t tokens = c_.embedding_width > 0 ? c_.embedding_width : c_.width;
    Matrix<S> x(b.batch * b.length, tokens);
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t i = 0; i < tokens; ++i) x.at(r, i) = c_.embedding_scale * table[b.ids[r] * tokens + i];
    }
    if (tokens != c_.width) x = linear(x, "embedding_in", c_.width, false);
    for (int64_t row = 0; row < b.batch; ++row) {
      for (int64_t t = 0; t < b.length; ++t) {
        const int64_t r = row * b.length + t;
        const int p = position(b, row, t);
        for (int64_t i = 0; i < c_.width; ++i) {
          S& y = x.at(r, i);
          if (c_.positions == Positions::learned)
            y += w_.get(s + ".position_embedding.weight")[(p + c_.position_offset) * c_.width + i];
          if (c_.positions == Positions::sinusoidal) {
            const int64_t half = c_.width / 2;
            const int64_t pair = c_.sinusoidal_split ? i % half : i / 2;
            const bool cosine = c_.sinusoidal_split ? i >= half : i % 2 == 1;
            const Real angle = p / std::pow(10000.0, 2.0 * pair / c_.width);
            y += cosine ? std::cos(angle) : std::sin(angle);
          }
          if (c_.token_types > 0 && side == Side::encoder) y += w_.get("type_embedding.weight")[i];
        }
      }
    }
    if (sublayer_formula(c_, side, 0).unit) return norm(x, "", resolved_layer(c_, side, 0), {});
    if (c_.embedding_norm) x = norm(x, s + ".embedding_norm", layer_config(c_, side, 0), b.mask);
    return x;
  }

  // The weight of a map, under sigma-reparam gamma / |W v| of each of its parts.
  std::vector<S> map(const std::string& name, int64_t inputs, std::vector<int64_t> parts) const {
    std::vector<S> w = w_.get(name + ".weight");
    if (!w_.has(name + ".gamma")) return w;
    const int64_t outputs = static_cast<int64_t>(w.size()) / inputs;
    if (parts.empty()) parts = {outputs};
    const auto at = [&](int64_t o, int64_t i) -> S& {
      return c_.linear_in_out ? w[i * outputs + o] : w[o * inputs + i];
    };
    int64_t first = 0;
    for (size_t p = 0; p < parts.size(); first += parts[p++]) {
      const S* v = w_.get(name + ".singular").data() + static_cast<int64_t>(p) * inputs;
      S image = 0, vector = 0;
      for (int64_t i = 0; i < inputs; ++i) vector += v[i] * v[i];
      for (int64_t o = first; o < first + parts[p]; ++o) {
        S sum = 0;
        for (int64_t i = 0; i < inputs; ++i) sum += at(o, i) * v[i];
        image += sum * sum;
      }
      const S by = w_.get(name + ".gamma")[p] * std::sqrt(vector) / std::sqrt(image);
      for (int64_t o = first; o < first + parts[p]; ++o) {
        for (int64_t i = 0; i < inputs; ++i) at(o, i) *= by;
      }
    }
    return w;
  }

  Matrix<S> linear(const Matrix<S>& x, const std::string& name, int64_t outputs, bool bias_given,
                   const std::vector<int64_t>& parts = {}) const {
    const std::vector<S> w = map(name, x.width, parts);
    const bool bias = bias_given || w_.has(name + ".bias");
    Matrix<S> y(x.rows, outputs);
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t o = 0; o < outputs; ++o) {
        S sum = bias ? w_.get(name + ".bias")[o] : S(0);
        for (int64_t i = 0; i < x.width; ++i) {
          sum += x.at(r, i) * (c_.linear_in_out ? w[i * outputs + o] : w[o * x.width + i]);
        }
        y.at(r, o) = sum;
      }
    }
    return y;
  }

  static Matrix<S> columns(const Matrix<S>& x, int64_t first, int64_t width) {
    Matrix<S> m(x.rows, width);
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t i = 0; i < width; ++i) m.at(r, i) = x.at(r, first + i);
    }
    return m;
  }

  Matrix<S> norm(const Matrix<S>& x, const std::string& name, const LayerConfig& l,
                 const std::vector<int>& mask) const {
    const auto gain = [&](int64_t i) {
      return l.norm_affine ? w_.get(name + ".gain")[i] + (l.norm_unit_offset ? 1.0 : 0.0) : S(1);
    };
    const auto bias = [&](int64_t i) { return l.norm_bias ? w_.get(name + ".bias")[i] : S(0); };
    if (l.norm == NormKind::shift) {
      Matrix<S> y = x;
      for (S& v : y.v) v += w_.get(name + ".bias")[0];
      return y;
    }
    if (l.norm == NormKind::batch_norm) return batch_norm(x, l, mask, gain, bias);
    Matrix<S> y(x.rows, x.width);
    const Real n = static_cast<Real>(x.width);
    for (int64_t r = 0; r < x.rows; ++r) {
      S mean = 0, square = 0;
      for (int64_t i = 0; i < x.width; ++i) mean += x.at(r, i) / n;
      if (l.norm != NormKind::layer_norm) mean = 0;
      for (int64_t i = 0; i < x.width; ++i) square += (x.at(r, i) - mean) * (x.at(r, i) - mean) / n;
      for (int64_t i = 0; i < x.width; ++i) {
        const S centred = x.at(r, i) - mean;
        if (l.norm == NormKind::scale_norm) {
          y.at(r, i) =
              (l.norm_affine ? w_.get(name + ".gain")[0] : S(1)) * x.at(r, i) / std::sqrt(square * n);
        } else if (l.norm == NormKind::dyt) {
          y.at(r, i) = gain(i) * std::tanh(w_.get(name + ".alpha")[0] * x.at(r, i)) + bias(i);
        } else {
          y.at(r, i) = centred / std::sqrt(square + l.norm_eps) * gain(i) + bias(i);
        }
      }
    }
    return y;
  }

  template <class G, class B>
  Matrix<S> batch_norm(const Matrix<S>& x, const LayerConfig& l, const std::vector<int>& mask, G gain,
                       B bias) const {
    Matrix<S> y(x.rows, x.width);
    const auto is_real = [&](int64_t r) { return mask.empty() || mask[r] != 0; };
    for (int64_t i = 0; i < x.width; ++i) {
      Real n = 0;
      S mean = 0, var = 0;
      for (int64_t r = 0; r < x.rows; ++r) n += is_real(r);
      for (int64_t r = 0; r < x.rows; ++r) mean += is_real(r) ? x.at(r, i) / n : S(0);
      for (int64_t r = 0; r < x.rows; ++r)
        var += is_real(r) ? (x.at(r, i) - mean) * (x.at(r, i) - mean) / n : S(0);
      for (int64_t r = 0; r < x.rows; ++r) {
        if (is_real(r)) y.at(r, i) = (x.at(r, i) - mean) / std::sqrt(var + l.norm_eps) * gain(i) + bias(i);
      }
    }
    return y;
  }

  // Of each pair of a layer's rotary dims, by the papers' formulas with wavelengths (2309.00071, 2402.13753,
  // Llama 3.1's code).
  std::vector<Real> frequencies(const LayerConfig& l, int64_t named, int64_t length) const {
    const RopeConfig& r = l.rope;
    const Real old = r.original_length, dims = named;
    std::vector<Real> result;
    for (int64_t i = 0; 2 * i < named; ++i) {
      Real base = r.base;
      if (r.scaling == RopeScaling::dynamic && length > old)
        base *= std::pow(r.factor * length / old - (r.factor - 1), dims / (dims - 2));
      Real wave = 2 * std::numbers::pi * std::pow(base, 2.0 * i / dims);
      if (r.scaling == RopeScaling::linear) wave *= r.factor;
      if (r.scaling == RopeScaling::longrope) wave *= (length > old ? r.long_factors : r.short_factors)[i];
      if (r.scaling == RopeScaling::llama3) {
        const Real slow = old / r.low_frequency, fast = old / r.high_frequency;
        const Real smooth = (old / wave - r.low_frequency) / (r.high_frequency - r.low_frequency);
        if (wave > slow) {
          wave *= r.factor;
        } else if (wave >= fast) {
          wave = wave / ((1 - smooth) / r.factor + smooth);
        }
      }
      if (r.scaling == RopeScaling::yarn) {
        const auto at = [&](Real turns) {
          return dims * std::log(old / (turns * 2 * std::numbers::pi)) / (2 * std::log(r.base));
        };
        const Real low = std::max<Real>(0, r.truncate ? std::floor(at(r.beta_fast)) : at(r.beta_fast));
        const Real high = std::min<Real>(dims - 1, r.truncate ? std::ceil(at(r.beta_slow)) : at(r.beta_slow));
        const Real slow = i <= low ? 0 : i >= high ? 1 : (i - low) / (high - low);
        wave = 1 / (slow / (r.factor * wave) + (1 - slow) / wave);
      }
      result.push_back(2 * std::numbers::pi / wave);
    }
    return result;
  }

  static Real turned_size(const RopeConfig& r) {
    if (r.scaling != RopeScaling::yarn && r.scaling != RopeScaling::longrope) return 1;
    if (r.attention_factor > 0) return r.attention_factor;
    const Real s = r.factor;
    if (r.scaling == RopeScaling::longrope)
      return std::sqrt(1 + std::log(s) / std::log(Real(r.original_length)));
    if (r.mscale > 0 && r.mscale_all > 0)
      return (0.1 * r.mscale * std::log(s) + 1) / (0.1 * r.mscale_all * std::log(s) + 1);
    return 0.1 * std::log(s) + 1;
  }

  void rotate(Matrix<S>& x, int64_t heads, const LayerConfig& l, const Batch& b, bool queries) const {
    const int64_t dim = l.head_dim;
    const int64_t named =
        l.kv_rank > 0 ? l.rope_dim : static_cast<int64_t>(static_cast<Real>(dim) * l.rope.fraction);
    const int64_t rotary = named + named % 2;
    const int64_t first = l.kv_rank > 0 ? dim - rotary : 0;
    int64_t longest = 0;
    for (int64_t row = 0; row < b.batch; ++row) {
      const auto of_row = b.mask.begin() + row * b.length;
      longest = std::max<int64_t>(longest, std::count(of_row, of_row + b.length, 1));
    }
    const std::vector<Real> turns = frequencies(l, named, longest);
    for (int64_t row = 0; row < b.batch; ++row) {
      for (int64_t t = 0; t < b.length; ++t) {
        const int64_t r = row * b.length + t;
        const int p = position(b, row, t);
        const Real growth =
            queries ? 1 + l.rope.query_growth * std::log(1.0 + p / l.rope.original_length) : 1;
        const Real size = growth * turned_size(l.rope);
        for (int64_t h = 0; h < heads; ++h) {
          for (int64_t i = 0; i < rotary / 2; ++i) {
            const Real angle = p * turns[i];
            S& a = x.at(r, h * dim + first + (l.rope.interleaved ? 2 * i : i));
            S& d = x.at(r, h * dim + first + (l.rope.interleaved ? 2 * i + 1 : i + rotary / 2));
            const S u = a * std::cos(angle) - d * std::sin(angle),
                    v = a * std::sin(angle) + d * std::cos(angle);
            a = size * u;
            d = size * v;
          }
        }
      }
    }
  }

  Matrix<S> head_norm(const Matrix<S>& x, const std::string& name, const LayerConfig& l) const {
    Matrix<S> by_head = x;
    LayerConfig of_head = l;
    if (l.qk_norm == QkNorm::own_gains) of_head.norm_affine = of_head.norm_bias = false;
    if (l.qk_norm != QkNorm::whole) {
      by_head.rows = x.rows * x.width / l.head_dim;
      by_head.width = l.head_dim;
    }
    by_head = norm(by_head, name, of_head, {});
    by_head.rows = x.rows;
    by_head.width = x.width;
    for (int64_t k = 0; l.qk_norm == QkNorm::own_gains && k < x.rows * x.width; ++k)
      by_head.v[k] *= w_.get(name + ".gain")[k % x.width];
    return by_head;
  }

  // Latent attention: queries, keys and values before the rotation, every head with its copy of the shared
  // key.
  void latent(const Matrix<S>& x, const std::string& name, const LayerConfig& l, Matrix<S>& q, Matrix<S>& k,
              Matrix<S>& v) const {
    LayerConfig fixed = l;
    fixed.norm_eps = 1e-6;
    q = l.q_rank == 0 ? linear(x, name + ".query", l.heads * l.head_dim, false)
                      : linear(norm(linear(x, name + ".query_latent", l.q_rank, false),
                                    name + ".query_latent_norm", fixed, {}),
                               name + ".query_up", l.heads * l.head_dim, false);
    const Matrix<S> down = linear(x, name + ".latent", l.kv_rank + l.rope_dim, false);
    Matrix<S> latent(x.rows, l.kv_rank);
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t i = 0; i < l.kv_rank; ++i) latent.at(r, i) = down.at(r, i);
    }
    const int64_t plain = l.head_dim - l.rope_dim, each = plain + l.value_dim;
    const Matrix<S> up =
        linear(norm(latent, name + ".latent_norm", fixed, {}), name + ".key_value", l.heads * each, false);
    k = Matrix<S>(x.rows, l.heads * l.head_dim);
    v = Matrix<S>(x.rows, l.heads * l.value_dim);
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t h = 0; h < l.heads; ++h) {
        for (int64_t i = 0; i < l.head_dim; ++i) {
          k.at(r, h * l.head_dim + i) =
              i < plain ? up.at(r, h * each + i) : down.at(r, l.kv_rank + i - plain);
        }
        for (int64_t i = 0; i < l.value_dim; ++i)
          v.at(r, h * l.value_dim + i) = up.at(r, h * each + plain + i);
      }
    }
  }

  // `other` is what keys and values are made of: x itself, or the encoder's output.
  Matrix<S> attention(const Matrix<S>& x, const std::string& name, const LayerConfig& l, const Batch& b,
                      bool causal, const Matrix<S>* memory, const Batch* source, bool inner) {
    const int64_t q_width = l.heads * l.head_dim, kv_width = l.kv_heads * l.head_dim;
    const Matrix<S>& from = memory ? *memory : x;
    const Batch& keys = memory ? *source : b;
    Matrix<S> q, k, v;
    if (l.kv_rank > 0) {
      latent(x, name, l, q, k, v);
    } else if (l.qkv_fused && !memory) {
      const Matrix<S> all =
          linear(x, name + ".qkv", q_width + 2 * kv_width, false, {q_width, kv_width, kv_width});
      q = columns(all, 0, q_width);
      k = columns(all, q_width, kv_width);
      v = columns(all, q_width + kv_width, kv_width);
    } else {
      q = linear(x, name + ".query", q_width, false);
      k = linear(from, name + ".key", kv_width, false);
      v = linear(from, name + ".value", kv_width, false);
    }
    const auto limit = [&](Matrix<S>& m) {
      for (S& n : m.v) {
        if (l.qkv_limit > 0 && std::abs(real(n)) > l.qkv_limit) n = real(n) > 0 ? l.qkv_limit : -l.qkv_limit;
      }
    };
    limit(v);
    const bool normed_first = l.qk_norm != QkNorm::none && !l.qk_norm_late;
    for (Matrix<S>* m : {&q, &k}) {
      if (!normed_first) limit(*m);
    }
    const auto normed = [&](bool late) {
      if (l.qk_norm == QkNorm::none || l.qk_norm_late != late) return;
      q = head_norm(q, name + ".query_norm", l);
      k = head_norm(k, name + ".key_norm", l);
    };
    const bool rotary = !memory && c_.positions == Positions::rope && l.rotary;
    normed(false);
    for (Matrix<S>* m : {&q, &k}) {
      if (normed_first) limit(*m);
    }
    if (rotary) {
      rotate(q, l.heads, l, b, true);
      rotate(k, l.kv_heads, l, b, false);
    }
    normed(true);
    Matrix<S> y(x.rows, l.heads * l.value_dim);
    Real scale = l.attention_scale != 0 ? l.attention_scale : 1 / std::sqrt(static_cast<Real>(l.head_dim));
    if (rotary && l.rope.mscale_all > 0)
      scale *= std::pow(0.1 * l.rope.mscale_all * std::log(l.rope.factor) + 1, 2);
    const bool sinks = l.attention_sinks && !memory;
    for (int64_t row = 0; row < b.batch; ++row) {
      for (int64_t h = 0; h < l.heads; ++h) {
        const int64_t g = h / (l.heads / l.kv_heads);
        for (int64_t t = 0; t < b.length; ++t) {
          std::vector<S> weight(keys.length, S(0));
          S sum = sinks ? std::exp(w_.get(name + ".sinks")[h]) : S(0);
          for (int64_t s = 0; s < keys.length; ++s) {
            if (!keys.mask[row * keys.length + s] || (causal && s > t)) continue;
            if (!memory && l.window > 0 && std::abs(t - s) >= l.window) continue;
            S logit = 0;
            for (int64_t i = 0; i < l.head_dim; ++i) {
              logit += q.at(row * b.length + t, h * l.head_dim + i) *
                       k.at(row * keys.length + s, g * l.head_dim + i) *
                       squared_scale(name + ".query_scale", h * l.head_dim + i);
            }
            logit = capped(logit * scale, l.attention_softcap);
            if (!memory && c_.positions == Positions::alibi) {
              logit -= slope(h, l) * static_cast<Real>(std::abs(t - s));
            }
            weight[s] = std::exp(logit);
            sum += weight[s];
          }
          for (int64_t s = 0; s < keys.length; ++s) {
            if (weight[s] == S(0)) continue;
            for (int64_t i = 0; i < l.value_dim; ++i) {
              y.at(row * b.length + t, h * l.value_dim + i) +=
                  weight[s] / sum * v.at(row * keys.length + s, g * l.value_dim + i);
            }
          }
        }
      }
    }
    if (w_.has(name + ".head_scale")) {
      for (int64_t r = 0; r < y.rows; ++r) {
        for (int64_t i = 0; i < q_width; ++i) y.at(r, i) *= w_.get(name + ".head_scale")[i / l.head_dim];
      }
    }
    if (inner) y = norm(y, name + ".norm_inner", l, {});
    return linear(y, name + ".output", c_.width, false);
  }

  // ALiBi, of heads that are a power of 2.
  Real slope(int64_t head, const LayerConfig& l) const {
    const Real m = std::exp2(-c_.alibi_max * static_cast<Real>(head + 1) / static_cast<Real>(l.heads));
    if (!c_.alibi_scaled) return m;
    const Real ulp = std::exp2(std::floor(std::log2(m)) - 7);  // of bf16
    return 2 * std::nearbyint(m / ulp) * ulp / std::sqrt(static_cast<Real>(l.head_dim));
  }

  // nGPT's s_qk^2, (s sqrt(C))^2.
  S squared_scale(const std::string& name, int64_t i) const {
    return w_.has(name) ? w_.get(name)[i] * w_.get(name)[i] * static_cast<Real>(c_.width) : S(1);
  }

  // nGPT's s sqrt(C) on u and v.
  void scale_hidden(Matrix<S>& h, const std::string& name) const {
    for (size_t i = 0; w_.has(name) && i < h.v.size(); ++i)
      h.v[i] *= w_.get(name)[i % h.width] * std::sqrt(static_cast<Real>(c_.width));
  }

  // The gate at most the limit, up within it and moved.
  static void bound(const LayerConfig& l, Matrix<S>& gate, Matrix<S>& up) {
    for (S& v : gate.v) {
      if (l.ffn_limit > 0 && real(v) > l.ffn_limit) v = l.ffn_limit;
    }
    for (S& v : up.v) {
      if (l.ffn_limit > 0 && std::abs(real(v)) > l.ffn_limit) v = real(v) > 0 ? l.ffn_limit : -l.ffn_limit;
      v += l.up_offset;
    }
  }

  Matrix<S> feed_forward(const Matrix<S>& x, const std::string& name, const LayerConfig& l,
                         bool inner) const {
    const bool fused = l.gated && l.gate_up_fused;
    const Matrix<S> both =
        fused ? linear(x, name + ".gate_up", 2 * l.ffn_width, false, {l.ffn_width, l.ffn_width})
              : Matrix<S>();
    Matrix<S> h =
        fused ? columns(both, l.ffn_width, l.ffn_width) : linear(x, name + ".up", l.ffn_width, false);
    scale_hidden(h, name + ".up_scale");
    if (l.gated) {
      Matrix<S> gate = fused ? columns(both, 0, l.ffn_width) : linear(x, name + ".gate", l.ffn_width, false);
      scale_hidden(gate, name + ".gate_scale");
      bound(l, gate, h);
      for (size_t i = 0; i < h.v.size(); ++i) h.v[i] *= act(gate.v[i], l.activation);
    } else {
      for (S& value : h.v) value = act(value, l.activation);
    }
    if (inner) h = norm(h, name + ".norm_inner", l, {});
    return linear(h, name + ".down", c_.width, false);
  }

  // Which experts may be chosen: all, or those of the best groups.
  static std::vector<bool> open_experts(const LayerConfig& l, const std::vector<Real>& score) {
    std::vector<bool> open(l.experts, l.router_groups == 1);
    if (l.router_groups == 1) return open;
    const int64_t size = l.experts / l.router_groups;
    std::vector<std::pair<Real, int64_t>> groups;
    for (int64_t g = 0; g < l.router_groups; ++g) {
      std::vector<Real> of(score.begin() + g * size, score.begin() + (g + 1) * size);
      std::sort(of.rbegin(), of.rend());
      groups.emplace_back(-of[0] - (l.router_group_by == RouterGroup::best_two ? of[1] : 0), g);
    }
    std::sort(groups.begin(), groups.end());
    for (int64_t i = 0; i < l.router_top_groups; ++i) {
      for (int64_t e = 0; e < size; ++e) open[groups[i].second * size + e] = true;
    }
    return open;
  }

  Matrix<S> experts(const Matrix<S>& x, const std::string& name, const LayerConfig& l, const Batch& b,
                    bool inner) {
    const Matrix<S> logits = linear(x, name + ".router", l.experts, false);
    Matrix<S> y(x.rows, x.width);
    std::vector<S> mean_probability(l.experts, S(0));
    std::vector<Real> fraction(l.experts, 0);
    Real rows = 0;
    for (const int m : b.mask) rows += m;
    for (int64_t r = 0; r < x.rows; ++r) {
      if (!b.mask[r]) continue;
      S sum = 0;
      for (int64_t e = 0; e < l.experts; ++e) sum += std::exp(logits.at(r, e));
      std::vector<S> score(l.experts);
      std::vector<int64_t> order(l.experts);
      for (int64_t e = 0; e < l.experts; ++e) {
        mean_probability[e] += std::exp(logits.at(r, e)) / sum / rows;
        score[e] = l.router == Router::softmax ? std::exp(logits.at(r, e)) / sum
                                               : 1.0 / (1.0 + std::exp(-logits.at(r, e)));
        order[e] = e;
      }
      std::vector<Real> preference(l.experts);
      for (int64_t e = 0; e < l.experts; ++e) {
        preference[e] = real(score[e]);
        if (l.router_correction) preference[e] += real(w_.get(name + ".router.correction")[e]);
      }
      const std::vector<bool> open = open_experts(l, preference);
      std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
        return open[i] != open[j] ? open[i] : preference[i] > preference[j];
      });
      S total = 0;
      for (int64_t k = 0; k < l.experts_per_token; ++k) total += score[order[k]];
      Matrix<S> one(1, x.width);
      for (int64_t i = 0; i < x.width; ++i) one.at(0, i) = x.at(r, i);
      for (int64_t k = 0; k < l.experts_per_token; ++k) {
        const int64_t e = order[k];
        fraction[e] += 1 / rows;
        const S weight = l.router_scale * (l.router_normalize ? score[e] / total : score[e]);
        const Matrix<S> out = feed_forward(one, name + ".experts." + std::to_string(e), l, inner);
        for (int64_t i = 0; i < x.width; ++i) y.at(r, i) += weight * out.at(0, i);
      }
    }
    add_balance(fraction, mean_probability, rows);
    LayerConfig shared = l;
    shared.ffn_width = l.shared_width;
    const Matrix<S> gate = l.shared_gate ? linear(x, name + ".shared_gate", 1, false) : Matrix<S>();
    for (int64_t e = 0; e < l.shared_experts; ++e) {
      const Matrix<S> out = feed_forward(x, name + ".shared." + std::to_string(e), shared, inner);
      for (size_t i = 0; i < y.v.size(); ++i) {
        y.v[i] += l.shared_gate ? out.v[i] / (1.0 + std::exp(-gate.v[i / x.width])) : out.v[i];
      }
    }
    return y;
  }

  // Of a layer's `rows` real tokens.
  void add_balance(const std::vector<Real>& fraction, const std::vector<S>& mean_probability, Real rows) {
    const size_t experts = fraction.size();
    if (!c_.router_aux_joint) {
      for (size_t e = 0; e < experts; ++e)
        balance_ += static_cast<Real>(experts) * fraction[e] * mean_probability[e];
      return;
    }
    assigned_.resize(experts);
    probability_.resize(experts);
    routed_ += rows;
    for (size_t e = 0; e < experts; ++e) {
      assigned_[e] += rows * fraction[e];
      probability_[e] += rows * mean_probability[e];
    }
  }

  // The formula itself, with F given.
  template <class F>
  Matrix<S> sublayer(const Matrix<S>& x, const std::string& name, const SublayerFormula& f,
                     const LayerConfig& l, const Batch& b, F&& branch) {
    if (f.mixing != Mixing::none) return mixed(x, name, f, l, b, branch);
    Matrix<S> in = f.norm_in ? norm(x, name + ".norm_in", l, b.mask) : x;
    for (S& v : in.v) v *= f.s;
    Matrix<S> y = branch(in);
    if (f.norm_branch) y = norm(y, name + ".norm_branch", l, b.mask);
    for (int64_t r = 0; r < y.rows; ++r) {
      for (int64_t i = 0; i < y.width; ++i) {
        if (f.unit) {
          S step = w_.get(name + ".gate")[i] * f.gate_value * std::sqrt(static_cast<Real>(x.width));
          if (real(step) < 0) step = -step;
          y.at(r, i) = (1.0 - step) * x.at(r, i) + step * y.at(r, i);
          continue;
        }
        const S g = f.gate == GateKind::constant ? S(f.gate_value)
                    : f.gate == GateKind::scalar ? w_.get(name + ".gate")[0]
                                                 : w_.get(name + ".gate")[i];
        const S a = f.shortcut == GateKind::constant ? S(f.alpha)
                    : f.shortcut == GateKind::scalar ? w_.get(name + ".shortcut")[0]
                                                     : w_.get(name + ".shortcut")[i];
        if (f.dual != 0) second_.at(r, i) += f.dual * g * y.at(r, i);
        y.at(r, i) = a * x.at(r, i) + g * y.at(r, i);
      }
    }
    return f.norm_out ? norm(y, name + ".norm_out", l, b.mask) : y;
  }

  // The elements of a row's map: H_pre, H_post, H_res (2409.19606, 2512.24880).
  std::vector<S> map(const Matrix<S>& x, int64_t r, const std::string& name, const SublayerFormula& f) const {
    const int64_t n = f.streams, count = n * (n + 2);
    const bool free = f.mixing == Mixing::free;
    const auto &theta = w_.get(name + ".weight"), &base = w_.get(name + ".base"),
               &scale = w_.get(name + ".scale");
    const int64_t inputs = free ? c_.width : n * c_.width, outputs = free ? n + 2 : count;
    const auto dynamic = [&](int64_t output, int64_t first) {
      S square = 0, sum = 0;
      for (int64_t i = 0; i < inputs; ++i) {
        square += x.at(r, first + i) * x.at(r, first + i) / static_cast<Real>(inputs);
        sum += x.at(r, first + i) *
               (c_.linear_in_out ? theta[i * outputs + output] : theta[output * inputs + i]);
      }
      return sum / std::sqrt(square + c_.layer.norm_eps);
    };
    std::vector<S> m(count);
    for (int64_t k = 0; k < count; ++k) {
      const int part = k < n ? 0 : k < 2 * n ? 1 : 2;
      const int64_t stream = k < 2 * n ? k % n : (k - 2 * n) % n;  // H_res[i, j] is made of stream j
      const S z =
          free ? std::tanh(dynamic(part < 2 ? part : 2 + (k - 2 * n) / n, stream * c_.width)) : dynamic(k, 0);
      m[k] = scale[part] * z + base[k];
      if (!free) m[k] = part == 2 ? std::exp(m[k]) : (part + 1.0) / (1.0 + std::exp(-m[k]));
    }
    for (int step = 0; !free && step < 40; ++step) {  // columns and rows in turn
      for (int64_t a = 0; a < n; ++a) {
        S sum = 0;
        for (int64_t e = 0; e < n; ++e) sum += m[2 * n + (step % 2 == 0 ? e * n + a : a * n + e)];
        for (int64_t e = 0; e < n; ++e) m[2 * n + (step % 2 == 0 ? e * n + a : a * n + e)] /= sum;
      }
    }
    return m;
  }

  template <class F>
  Matrix<S> mixed(const Matrix<S>& x, const std::string& name, const SublayerFormula& f, const LayerConfig& l,
                  const Batch& b, F&& branch) {
    const int64_t n = f.streams, width = c_.width;
    Matrix<S> read(x.rows, width), y(x.rows, x.width);
    std::vector<std::vector<S>> maps;
    for (int64_t r = 0; r < x.rows; ++r) {
      maps.push_back(map(x, r, name + ".maps", f));
      for (int64_t k = 0; k < n * width; ++k) read.at(r, k % width) += maps[r][k / width] * x.at(r, k);
    }
    Matrix<S> in = f.norm_in ? norm(read, name + ".norm_in", l, b.mask) : read;
    for (S& v : in.v) v *= f.s;
    Matrix<S> out = branch(in);
    if (f.norm_branch) out = norm(out, name + ".norm_branch", l, b.mask);
    for (int64_t r = 0; r < x.rows; ++r) {
      for (int64_t k = 0; k < n * width; ++k) {
        y.at(r, k) = maps[r][n + k / width] * f.gate_value * out.at(r, k % width);
        for (int64_t j = 0; j < n; ++j)
          y.at(r, k) += maps[r][2 * n + k / width * n + j] * x.at(r, j * width + k % width);
      }
    }
    return y;
  }

  Matrix<S> stack(Side side, Matrix<S> x, const Batch& b, const Matrix<S>* memory, const Batch* source) {
    const std::string s = side == Side::encoder ? "encoder" : "decoder";
    const int64_t layers = side == Side::encoder ? c_.encoder_layers : c_.decoder_layers;
    second_ = x;
    for (S& v : second_.v) v *= sublayer_formula(c_, side, 0).dual;
    const int64_t streams = sublayer_formula(c_, side, 0).streams;
    if (streams > 1) {
      Matrix<S> all(x.rows, streams * c_.width);
      for (int64_t r = 0; r < x.rows; ++r) {
        for (int64_t k = 0; k < all.width; ++k) all.at(r, k) = x.at(r, k % c_.width);
      }
      x = all;
    }
    for (int64_t i = 0; i < layers; ++i) {
      const LayerConfig l = resolved_layer(c_, side, i);
      const SublayerFormula f = sublayer_formula(c_, side, i);
      const SublayerFormula t = sublayer_formula(c_, side, i, SublayerPart::feed_forward);
      const std::string name = s + "." + std::to_string(i);
      const auto attend = [&](const Matrix<S>& in) {
        return attention(in, name + ".attention", l, b, side == Side::decoder, nullptr, nullptr,
                         f.norm_inner);
      };
      const auto transform = [&](const Matrix<S>& in) {
        return l.experts > 0 ? experts(in, name + ".feed_forward", l, b, t.norm_inner)
                             : feed_forward(in, name + ".feed_forward", l, t.norm_inner);
      };
      if (l.parallel != Parallel::no) {
        x = sublayer(x, name + ".attention", f, l, b, [&](const Matrix<S>& in) {
          Matrix<S> other = in;
          if (l.parallel == Parallel::two_norms) {
            other = f.norm_in ? norm(x, name + ".feed_forward.norm_in", l, b.mask) : x;
            for (S& v : other.v) v *= f.s;
          }
          Matrix<S> y = attend(in);
          const Matrix<S> z = transform(other);
          for (size_t k = 0; k < y.v.size(); ++k) y.v[k] += z.v[k];
          return y;
        });
        continue;
      }
      x = sublayer(x, name + ".attention", f, l, b, attend);
      if (memory) {
        x = sublayer(x, name + ".cross_attention", f, l, b, [&](const Matrix<S>& in) {
          return attention(in, name + ".cross_attention", l, b, false, memory, source, f.norm_inner);
        });
      }
      x = sublayer(x, name + ".feed_forward", t, l, b, transform);
    }
    if (streams > 1) {
      Matrix<S> mean(x.rows, c_.width);
      for (int64_t r = 0; r < x.rows; ++r) {
        for (int64_t k = 0; k < x.width; ++k)
          mean.at(r, k % c_.width) += x.at(r, k) / static_cast<Real>(streams);
      }
      x = mean;
    }
    if (!has_final_norm(c_, side)) return x;
    const bool dual = sublayer_formula(c_, side, 0).dual != 0;
    Matrix<S> y = norm(dual ? second_ : x, s + ".final_norm", resolved_layer(c_, side, layers - 1), b.mask);
    for (size_t k = 0; dual && k < y.v.size(); ++k) y.v[k] += x.v[k];
    return y;
  }

  const ModelConfig& c_;
  const Weights<S>& w_;
  S balance_ = 0;
  // Where layers are balanced together: sums over all tokens of all layers.
  std::vector<Real> assigned_;
  std::vector<S> probability_;
  Real routed_ = 0;
  Matrix<S> second_;  // ResiDual's stream
};

}  // namespace plumb::oracle
