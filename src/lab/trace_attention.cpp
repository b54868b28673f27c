#include "lab/trace_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace plumb {
namespace {

// `sink`: the logit of what is not written, -inf where there is none.
void softmax_row(std::vector<double>& logits, double sink, float* weights) {
  const double highest = std::max(sink, *std::max_element(logits.begin(), logits.end()));
  if (highest == -std::numeric_limits<double>::infinity()) return;
  double sum = std::exp(sink - highest);
  for (double& x : logits) sum += x = std::exp(x - highest);
  for (size_t s = 0; s < logits.size(); ++s) weights[s] = static_cast<float>(logits[s] / sum);
}

std::vector<int64_t> seen_keys(const AttentionView& view, int64_t queries, int64_t keys) {
  std::vector<int64_t> seen(queries);
  for (int64_t t = 0; t < queries; ++t) {
    for (int64_t s = 0; s < keys; ++s) seen[t] += view.sees(t, s);
  }
  return seen;
}

HeadAttention head_numbers(const Tensor& weights, int64_t head, const std::vector<int64_t>& seen,
                           std::vector<double>& received) {
  const int64_t queries = weights.size(1), keys = weights.size(2);
  HeadAttention h;
  std::vector<double> mass(keys);
  double entropies = 0, all = 0;
  int64_t measured = 0;
  for (int64_t t = 0; t < queries; ++t) {
    const float* w = weights.f32() + (head * queries + t) * keys;
    double entropy = 0;
    for (int64_t s = 0; s < keys; ++s) {
      mass[s] += w[s];
      all += w[s];
      h.distance += w[s] * static_cast<double>(std::abs(t - s));
      if (w[s] > 0) entropy -= w[s] * std::log(static_cast<double>(w[s]));
    }
    if (seen[t] < 2) continue;
    entropies += entropy / std::log(static_cast<double>(seen[t]));
    ++measured;
  }
  h.top = std::max_element(mass.begin(), mass.end()) - mass.begin();
  h.top_share = all > 0 ? mass[h.top] / all : 0;
  h.distance = all > 0 ? h.distance / all : 0;
  h.entropy = measured > 0 ? entropies / static_cast<double>(measured) : std::nan("");
  for (int64_t s = 0; s < keys; ++s) received[s] += mass[s];
  return h;
}

}  // namespace

bool AttentionView::sees(int64_t t, int64_t s) const {
  return (!causal || s <= t) && (window == 0 || std::abs(t - s) < window);
}

AttentionView view_of(const ModelConfig& config, const SublayerName& a) {
  if (a.part == "cross_attention") return {};
  return {.causal = a.side == Side::decoder, .window = resolved_layer(config, a.side, a.layer).window};
}

Tensor attention_weights(const ModelConfig& config, const SublayerName& attention, const AttentionView& view,
                         const Tensor& q, const Tensor& k, const Tensor& sinks) {
  const LayerConfig c = resolved_layer(config, attention.side, attention.layer);
  const int64_t queries = q.size(1), keys = k.size(1), d = c.head_dim, each = c.heads / c.kv_heads;
  PLUMB_CHECK(q.width() == c.heads * d && k.width() == c.kv_heads * d, "{} and {}", q.shape().str(),
              k.shape().str());
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  const bool self = attention.part == "attention";
  const double scale = attention_scale(c, self && config.positions == Positions::rope && c.rotary);
  const bool alibi = config.positions == Positions::alibi && self;
  const std::vector<float> slopes = alibi ? alibi_slopes(config, c) : std::vector<float>(c.heads, 0);
  Tensor weights = Tensor::zeros({c.heads, queries, keys});
  std::vector<double> logits(keys);
  for (int64_t h = 0; h < c.heads; ++h) {
    for (int64_t t = 0; t < queries; ++t) {
      const float* query = q.f32() + t * q.width() + h * d;
      for (int64_t s = 0; s < keys; ++s) {
        const float* key = k.f32() + s * k.width() + h / each * d;
        double z = scale * std::inner_product(query, query + d, key, 0.0);
        if (c.attention_softcap > 0) z = c.attention_softcap * std::tanh(z / c.attention_softcap);
        logits[s] = view.sees(t, s) ? z - slopes[h] * static_cast<double>(std::abs(t - s)) : kNone;
      }
      softmax_row(logits, sinks.defined() ? sinks.f32()[h] : kNone, weights.f32() + (h * queries + t) * keys);
    }
  }
  return weights;
}

AttentionNumbers attention_numbers(const std::string& module, const Tensor& weights,
                                   const std::vector<int64_t>& seen) {
  AttentionNumbers n{.module = module, .received = std::vector<double>(weights.size(2))};
  for (int64_t h = 0; h < weights.size(0); ++h) {
    n.heads.push_back(head_numbers(weights, h, seen, n.received));
    n.entropy += n.heads.back().entropy / static_cast<double>(weights.size(0));
  }
  const double all = std::accumulate(n.received.begin(), n.received.end(), 0.0);
  for (double& share : n.received) share = all > 0 ? share / all : 0;
  return n;
}

std::vector<AttentionNumbers> attention_numbers(const ModelConfig& config, const Observed& observed) {
  std::vector<AttentionNumbers> result;
  for (const SublayerName& s : sublayers_of(config)) {
    const Tensor q = observed.value(s.module, "q"), k = observed.value(s.module, "k");
    if (!q.defined()) continue;
    const AttentionView view = view_of(config, s);
    result.push_back(attention_numbers(
        s.module, attention_weights(config, s, view, q, k, observed.value(s.module, "sinks")),
        seen_keys(view, q.size(1), k.size(1))));
  }
  return result;
}

}  // namespace plumb
