#include "kernels/experts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kernels/row_blocks.h"
#include "kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/experts.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plumb {
namespace HWY_NAMESPACE {

void combine_forward_row(const CombineForward& a, int64_t n) {
  const int32_t* place = a.place + n * a.top_k;
  const float* weights = a.weights ? a.weights + n * a.top_k : nullptr;
  for_lanes(a.width, [&](auto d, size_t i) HWY_ATTR {
    auto sum = hn::Zero(d);
    for (int64_t s = 0; s < a.top_k; ++s) {
      const auto x = hn::LoadU(d, a.x + place[s] * a.width + i);
      sum = weights ? hn::MulAdd(x, hn::Set(d, weights[s]), sum) : hn::Add(sum, x);
    }
    store(d, sum, a.y + n * a.width + i, a.add);
  });
}

void combine_backward_row(const CombineBackward& a, int64_t n) {
  const float* dy = a.dy + n * a.width;
  for (int64_t s = n * a.top_k; s < (n + 1) * a.top_k; ++s) {
    const float* x = a.x + a.place[s] * a.width;
    float* dx = a.dx + a.place[s] * a.width;
    a.dweights[s] = static_cast<float>(sum_lanes(a.width, [&](auto d, size_t i, auto acc) HWY_ATTR {
      const hn::Rebind<float, decltype(d)> df;
      const auto g = hn::LoadU(df, dy + i);
      acc = hn::MulAdd(hn::PromoteTo(d, g), load_wide(d, x + i), acc);
      hn::StoreU(hn::Mul(g, hn::Set(df, a.weights[s])), df, dx + i);
      return acc;
    }));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace plumb
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plumb {

HWY_EXPORT(combine_forward_row);
HWY_EXPORT(combine_backward_row);

namespace {

// The router's rows are short (E): plain loops.
void softmax(int64_t n, const float* logits, float* p) {
  float top = logits[0];
  for (int64_t e = 1; e < n; ++e) top = std::max(top, logits[e]);
  double sum = 0;
  for (int64_t e = 0; e < n; ++e) sum += std::exp(static_cast<double>(logits[e]) - top);
  for (int64_t e = 0; e < n; ++e)
    p[e] = static_cast<float>(std::exp(static_cast<double>(logits[e]) - top) / sum);
}

// The k largest of score(0) .. score(n - 1), the larger first, ties to the lower.
template <class Score>
void choose_largest(int64_t n, int64_t k, const Score& score, int32_t* chosen) {
  for (int64_t slot = 0; slot < k; ++slot) {
    int32_t best = -1;
    float best_score = 0;
    for (int32_t i = 0; i < n; ++i) {
      const float s = score(i);
      if (best >= 0 && !(s > best_score)) continue;
      if (std::find(chosen, chosen + slot, i) != chosen + slot) continue;
      best = i;
      best_score = s;
    }
    chosen[slot] = best;
  }
}

// `groups` has room for all of them.
void choose(const RouteForward& a, const float* scores, std::vector<int32_t>& groups, int32_t* chosen) {
  const auto score = [&](int64_t e) { return scores[e] + (a.selection_bias ? a.selection_bias[e] : 0.0f); };
  if (a.groups == 1) return choose_largest(a.experts, a.top_k, score, chosen);
  const int64_t size = a.experts / a.groups;
  const auto group_score = [&](int64_t g) {
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    float first = kNone, second = kNone;
    for (int64_t e = g * size; e < (g + 1) * size; ++e) {
      const float s = score(e);
      second = std::max(second, std::min(first, s));
      first = std::max(first, s);
    }
    return a.group_score == GroupScore::best ? first : first + second;
  };
  groups.resize(a.top_groups);
  choose_largest(a.groups, a.top_groups, group_score, groups.data());
  // In order, so that ties still go to the lower expert.
  std::sort(groups.begin(), groups.end());
  const auto expert = [&](int64_t i) { return groups[i / size] * size + i % size; };
  choose_largest(
      a.top_groups * size, a.top_k, [&](int64_t i) { return score(expert(i)); }, chosen);
  for (int64_t slot = 0; slot < a.top_k; ++slot) chosen[slot] = static_cast<int32_t>(expert(chosen[slot]));
}

double chosen_sum(int64_t top_k, const float* scores, const int32_t* chosen) {
  double sum = 0;
  for (int64_t slot = 0; slot < top_k; ++slot) sum += scores[chosen[slot]];
  return sum;
}

void route_forward_row(const RouteForward& a, int64_t n, std::vector<int32_t>& groups) {
  const float* logits = a.logits + n * a.experts;
  float* scores = a.scores + n * a.experts;
  int32_t* chosen = a.chosen + n * a.top_k;
  if (a.score == RouterScore::softmax) {
    softmax(a.experts, logits, scores);
  } else {
    for (int64_t e = 0; e < a.experts; ++e)
      scores[e] = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(logits[e]))));
  }
  choose(a, scores, groups, chosen);
  const double sum = a.normalise ? chosen_sum(a.top_k, scores, chosen) : 1;
  for (int64_t slot = 0; slot < a.top_k; ++slot) {
    a.weights[n * a.top_k + slot] =
        sum > 0 ? static_cast<float>(a.scaling * scores[chosen[slot]] / sum) : 0.0f;
  }
}

// With S the sum of the chosen scores and w = scaling * s / S: d/ds_j = scaling * (dw_j - sum_i dw_i s_i / S)
// / S.
void route_backward_row(const RouteBackward& a, int64_t n, std::vector<double>& dscores) {
  const float* scores = a.scores + n * a.experts;
  const int32_t* chosen = a.chosen + n * a.top_k;
  const float* dweights = a.dweights + n * a.top_k;
  const double sum = a.normalise ? chosen_sum(a.top_k, scores, chosen) : 1;
  double mean = 0;
  for (int64_t slot = 0; a.normalise && sum > 0 && slot < a.top_k; ++slot) {
    mean += dweights[slot] * static_cast<double>(scores[chosen[slot]]) / sum;
  }
  dscores.assign(a.experts, 0);
  double inner = 0;
  for (int64_t slot = 0; sum > 0 && slot < a.top_k; ++slot) {
    dscores[chosen[slot]] = a.scaling * (dweights[slot] - mean) / sum;
    inner += dscores[chosen[slot]] * scores[chosen[slot]];
  }
  for (int64_t e = 0; e < a.experts; ++e) {
    const double s = scores[e];
    const double d = a.score == RouterScore::softmax ? s * (dscores[e] - inner) : dscores[e] * s * (1 - s);
    float& out = a.dlogits[n * a.experts + e];
    out = static_cast<float>(a.add ? out + d : d);
  }
}

}  // namespace

void route_forward(const RouteForward& a) {
  PLUMB_CHECK(a.top_k >= 1 && a.top_k <= a.experts, "top {} of {} experts", a.top_k, a.experts);
  PLUMB_CHECK(a.groups >= 1 && a.experts % a.groups == 0 && a.top_groups >= 1 && a.top_groups <= a.groups &&
                  a.top_k <= a.top_groups * (a.experts / a.groups),
              "top {} of {} groups of {} experts", a.top_groups, a.groups, a.experts);
  for_blocks(a.rows, rows_per_block(16 * a.experts), [&](int64_t, int64_t first, int64_t last) {
    std::vector<int32_t> groups;
    for (int64_t n = first; n < last; ++n) route_forward_row(a, n, groups);
  });
}

void route_backward(const RouteBackward& a) {
  PLUMB_CHECK(a.top_k >= 1 && a.top_k <= a.experts, "top {} of {} experts", a.top_k, a.experts);
  for_blocks(a.rows, rows_per_block(16 * a.experts), [&](int64_t, int64_t first, int64_t last) {
    std::vector<double> dscores;
    for (int64_t n = first; n < last; ++n) route_backward_row(a, n, dscores);
  });
}

void group_by_expert(const GroupByExpert& a) {
  const int64_t assignments = a.rows * a.top_k;
  std::fill(a.offsets, a.offsets + a.experts + 1, 0);
  for (int64_t i = 0; i < assignments; ++i) {
    PLUMB_CHECK(a.chosen[i] >= 0 && a.chosen[i] < a.experts, "expert {} of {}", a.chosen[i], a.experts);
    ++a.offsets[a.chosen[i] + 1];
  }
  for (int64_t e = 0; e < a.experts; ++e) a.offsets[e + 1] += a.offsets[e];
  std::vector<int64_t> next(a.offsets, a.offsets + a.experts);
  for (int64_t i = 0; i < assignments; ++i) {
    const int64_t at = next[a.chosen[i]]++;
    a.token[at] = static_cast<int32_t>(i / a.top_k);
    a.place[i] = static_cast<int32_t>(at);
  }
}

void combine_forward(const CombineForward& a) {
  for_blocks(a.rows, rows_per_block(a.width * a.top_k), [&](int64_t, int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n) HWY_DYNAMIC_DISPATCH(combine_forward_row)(a, n);
  });
}

void combine_backward(const CombineBackward& a) {
  for_blocks(a.rows, rows_per_block(a.width * a.top_k), [&](int64_t, int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n) HWY_DYNAMIC_DISPATCH(combine_backward_row)(a, n);
  });
}

void add_probabilities(int64_t rows, int64_t experts, const float* logits, double* probability) {
  const int64_t block = rows_per_block(16 * experts);
  std::vector<double> parts(block_count(rows, block) * experts);
  for_blocks(rows, block, [&](int64_t b, int64_t first, int64_t last) {
    std::vector<float> p(experts);
    for (int64_t n = first; n < last; ++n) {
      softmax(experts, logits + n * experts, p.data());
      for (int64_t e = 0; e < experts; ++e) parts[b * experts + e] += p[e];
    }
  });
  for (size_t i = 0; i < parts.size(); ++i) probability[i % experts] += parts[i];
}

void probability_backward(const ProbabilityBackward& a) {
  for_blocks(a.rows, rows_per_block(16 * a.experts), [&](int64_t, int64_t first, int64_t last) {
    std::vector<float> p(a.experts);
    for (int64_t n = first; n < last; ++n) {
      softmax(a.experts, a.logits + n * a.experts, p.data());
      double mean = 0;
      for (int64_t e = 0; e < a.experts; ++e) mean += a.weight[e] * p[e];
      for (int64_t e = 0; e < a.experts; ++e) {
        a.dlogits[n * a.experts + e] += static_cast<float>(p[e] * (a.weight[e] - mean));
      }
    }
  });
}

}  // namespace plumb
#endif  // HWY_ONCE
