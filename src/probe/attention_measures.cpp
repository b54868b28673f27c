#include "probe/attention_measures.h"

#include <algorithm>
#include <cmath>

#include "probe/sample.h"

namespace plumb {
namespace {

constexpr int64_t kQueries = 64;

bool is_real(const Tensor& mask, int64_t b, int64_t s) {
  return !mask.defined() || mask.data<uint8_t>()[b * mask.width() + s] != 0;
}

// One sampled query of all heads against its keys.
class Query {
 public:
  Query(const ops::AttentionInput& in, int64_t b, int64_t t) : in_(in), a_(in.shape), b_(b), t_(t) {
    const int64_t own = a_.first_query + t;
    for (int64_t s = 0; s < a_.keys; ++s) {
      if (a_.causal && s > own) break;
      if (in.first_keys.defined() && s < in.first_keys.data<int32_t>()[b * a_.queries + t]) continue;
      if (a_.window > 0 && std::abs(own - s) >= a_.window) continue;
      if (is_real(in.key_mask, b, s)) keys_.push_back(s);
    }
    while (first_ < a_.keys && !is_real(in.key_mask, b, first_)) ++first_;
  }

  int64_t count() const { return static_cast<int64_t>(keys_.size()); }
  const float* q(int64_t head) const {
    return in_.q.t.f32() + (b_ * a_.queries + t_) * in_.q.t.width() + in_.q.first + head * a_.head_dim;
  }
  const float* k(int64_t s, int64_t head) const {
    const int64_t group = head / (a_.heads / a_.kv_heads);
    return in_.k.t.f32() + (b_ * in_.k.t.size(1) + s) * in_.k.t.width() + in_.k.first + group * a_.head_dim;
  }

  struct Numbers {
    double max_logit = 0, entropy = 0, first_mass = 0;
  };
  Numbers measure(int64_t head, std::vector<double>& z) const {
    Numbers n;
    z.clear();
    const double slope = in_.alibi_slopes.defined() ? double{in_.alibi_slopes.f32()[head]} : 0.0;
    for (const int64_t s : keys_) {
      const float *x = q(head), *y = k(s, head);
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t d = 0; d < a_.head_dim; ++d) sum += double{x[d]} * y[d];
      sum *= a_.scale;
      if (a_.softcap > 0) sum = a_.softcap * std::tanh(sum / a_.softcap);
      if (std::isnan(sum) || std::abs(sum) > n.max_logit) n.max_logit = std::abs(sum);
      z.push_back(sum - slope * static_cast<double>(std::abs(a_.first_query + t_ - s)));
    }
    const bool sink = in_.sinks.defined();  // one key more, which is not the first
    if (sink) z.push_back(in_.sinks.f32()[head]);
    const double highest = *std::max_element(z.begin(), z.end());
    double total = 0, weighted = 0, first = 0;
    for (size_t i = 0; i < z.size(); ++i) {
      const double w = std::exp(z[i] - highest);
      total += w;
      weighted += w * (z[i] - highest);
      if (i < keys_.size() && keys_[i] == first_) first = w;
    }
    n.entropy = (std::log(total) - weighted / total) / std::log(static_cast<double>(z.size()));
    n.first_mass = first / total;
    return n;
  }

 private:
  const ops::AttentionInput& in_;
  const Attention& a_;
  int64_t b_, t_, first_ = 0;
  std::vector<int64_t> keys_;
};

double norm_of(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double{x[i]} * x[i];
  return std::sqrt(sum);
}

double key_norms(const ops::AttentionInput& in, int64_t b, int64_t s) {
  const float* k = in.k.t.f32() + (b * in.k.t.size(1) + s) * in.k.t.width() + in.k.first;
  double sum = 0;
  for (int64_t g = 0; g < in.shape.kv_heads; ++g)
    sum += norm_of(k + g * in.shape.head_dim, in.shape.head_dim) / static_cast<double>(in.shape.kv_heads);
  return sum;
}

double larger(double a, double b) {  // NaN if one is
  return std::isnan(b) || b > a ? b : a;
}

}  // namespace

void AttentionMeasures::add(const ops::AttentionInput& in, const Tensor& query_mask) {
  const Attention& a = in.shape;
  entropy.resize(static_cast<size_t>(a.heads));
  std::vector<double> z;
  for (const int64_t row : sampled_rows(a.batch * a.queries, kQueries)) {
    const int64_t b = row / a.queries, t = row % a.queries;
    if (!is_real(query_mask, b, t)) continue;
    const Query query(in, b, t);
    if (query.count() == 0) continue;
    ++queries;
    spread += query.count() > 1;
    for (int64_t h = 0; h < a.heads; ++h) {
      const Query::Numbers n = query.measure(h, z);
      max_logit = larger(max_logit, n.max_logit);
      query_norm += norm_of(query.q(h), a.head_dim) / static_cast<double>(a.heads);
      if (query.count() < 2) continue;
      entropy[h] += n.entropy;
      first_mass += n.first_mass / static_cast<double>(a.heads);
    }
  }
  for (const int64_t row : sampled_rows(a.batch * a.keys, kQueries)) {
    const int64_t b = row / a.keys, s = row % a.keys;
    if (!is_real(in.key_mask, b, s)) continue;
    key_norm += key_norms(in, b, s);
    ++keys;
  }
}

double AttentionMeasures::mean_entropy() const {
  double sum = 0;
  for (const double e : entropy) sum += e;
  return sum / static_cast<double>(entropy.size()) / static_cast<double>(spread);
}

double AttentionMeasures::least_entropy() const {
  return *std::min_element(entropy.begin(), entropy.end()) / static_cast<double>(spread);
}

}  // namespace plumb
