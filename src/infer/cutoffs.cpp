#include "infer/cutoffs.h"

#include <algorithm>
#include <cmath>

#include "infer/logits.h"

namespace plumb {
namespace {

// Ids that are still in, in ascending order.
std::vector<int32_t> open_ids(std::span<const float> logits) {
  std::vector<int32_t> ids;
  ids.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] != kOut) ids.push_back(static_cast<int32_t>(i));
  }
  return ids;
}

struct Likelier {
  std::span<const float> logits;
  bool operator()(int32_t a, int32_t b) const {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  }
};

void rule_out(std::span<float> logits, std::span<const int32_t> ids) {
  for (const int32_t id : ids) logits[id] = kOut;
}

double entropy_of(std::span<const float> logits, double log_sum) {
  double entropy = 0;
  for (const float logit : logits) {
    if (logit != kOut) entropy -= (logit - log_sum) * std::exp(logit - log_sum);
  }
  return entropy;
}

}  // namespace

void keep_top_k(std::span<float> logits, int64_t k) {
  if (k <= 0 || k >= static_cast<int64_t>(logits.size())) return;
  std::vector<int32_t> ids = open_ids(logits);
  if (k >= static_cast<int64_t>(ids.size())) return;
  std::nth_element(ids.begin(), ids.begin() + k, ids.end(), Likelier{logits});
  rule_out(logits, std::span(ids).subspan(k));
}

void keep_top_p(std::span<float> logits, double p) {
  if (p >= 1) return;
  std::vector<int32_t> ids = open_ids(logits);
  if (ids.empty()) return;
  const float highest = logits[*std::min_element(ids.begin(), ids.end(), Likelier{logits})];
  double all = 0;
  for (const int32_t id : ids) all += weight(logits[id], highest);
  // Mostly few are kept: only as much of the order as is needed is made.
  size_t sorted = 0, kept = 0;
  double sum = 0;
  while (kept < ids.size() && (kept == 0 || sum < p * all)) {
    if (kept == sorted) {
      const size_t next = std::min(ids.size(), std::max<size_t>(64, sorted * 4));
      std::partial_sort(ids.begin() + sorted, ids.begin() + next, ids.end(), Likelier{logits});
      sorted = next;
    }
    sum += weight(logits[ids[kept++]], highest);
  }
  rule_out(logits, std::span(ids).subspan(kept));
}

void keep_min_p(std::span<float> logits, double p) {
  if (p <= 0 || logits.empty()) return;
  const double least = highest_of(logits) + std::log(std::min(p, 1.0));
  for (float& logit : logits) {
    if (logit < least) logit = kOut;
  }
}

void keep_typical(std::span<float> logits, double p) {
  std::vector<int32_t> ids = open_ids(logits);
  if (p >= 1 || ids.empty()) return;
  const double all = log_sum(logits), entropy = entropy_of(logits, all);
  const auto distance = [&](int32_t id) { return std::abs(all - logits[id] - entropy); };
  std::sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    const double da = distance(a), db = distance(b);
    return da != db ? da < db : a < b;
  });
  size_t kept = 0;
  for (double sum = 0; kept < ids.size() && (kept == 0 || sum < p); ++kept)
    sum += std::exp(logits[ids[kept]] - all);
  rule_out(logits, std::span(ids).subspan(kept));
}

void keep_probable(std::span<float> logits, double bound) {
  const float highest = highest_of(logits);
  if (bound <= 0 || !is_open(highest)) return;
  const double least = log_sum(logits) + std::log(bound);
  for (float& logit : logits) {
    if (logit < least && logit < highest) logit = kOut;
  }
}

void keep_probable_by_entropy(std::span<float> logits, double bound) {
  if (bound <= 0 || !is_open(highest_of(logits))) return;
  const double entropy = entropy_of(logits, log_sum(logits));
  keep_probable(logits, std::min(bound, std::sqrt(bound) * std::exp(-entropy)));
}

// Tokens at least this probable but the least likely of them, if they are at least two.
void rule_out_top(std::span<float> logits, double threshold) {
  const float highest = highest_of(logits);
  if (!is_open(highest)) return;
  const double least = log_sum(logits) + std::log(threshold);
  std::vector<int32_t> top = open_ids(logits);
  std::erase_if(top, [&](int32_t id) { return logits[id] < least; });
  if (top.size() < 2) return;
  const auto last = std::max_element(top.begin(), top.end(), Likelier{logits});
  top.erase(last);
  rule_out(logits, top);
}

void keep_unsurprising(std::span<float> logits, double bits) {
  keep_probable(logits, std::exp2(-bits));
}

}  // namespace plumb
