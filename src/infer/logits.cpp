#include "infer/logits.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr float kOut = -std::numeric_limits<float>::infinity();

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

// Where there is none: -inf, or what OpenMP's reduction starts from, which a compiler may take as the lowest
// finite number.
float highest_of(std::span<const float> logits) {
  float highest = kOut;
#pragma omp simd reduction(max : highest)
  for (size_t i = 0; i < logits.size(); ++i) highest = logits[i] > highest ? logits[i] : highest;
  return highest;
}

void rule_out(std::span<float> logits, std::span<const int32_t> ids) {
  for (const int32_t id : ids) logits[id] = kOut;
}

// exp(logit - highest), whose sum over the row is softmax's denominator.
double weight(float logit, float highest) {
  return std::exp(static_cast<double>(logit) - highest);
}

}  // namespace

void check_finite(std::span<const float> logits) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t faults = 0;
#pragma omp simd reduction(| : faults)
  for (size_t i = 0; i < logits.size(); ++i) {
    faults |= (std::bit_cast<uint32_t>(logits[i]) & kExponent) == kExponent ? 1u : 0u;
  }
  if (faults == 0) return;
  throw Error(ErrorKind::numeric,
              "the model's logits are not finite: its weights are damaged, or its training diverged");
}

void penalize_repetition(std::span<float> logits, std::span<const int32_t> history, double penalty) {
  if (penalty == 1) return;
  std::vector<int32_t> ids(history.begin(), history.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (const int32_t id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size()) continue;
    float& logit = logits[id];
    logit = static_cast<float>(logit > 0 ? logit / penalty : logit * penalty);
  }
}

void ban_words(std::span<float> logits, std::span<const int32_t> history,
               const std::vector<std::vector<int64_t>>& words) {
  for (const auto& word : words) {
    if (word.empty() || word.size() - 1 > history.size()) continue;
    if (!std::equal(word.begin(), word.end() - 1, history.end() - (word.size() - 1))) continue;
    if (word.back() >= 0 && static_cast<size_t>(word.back()) < logits.size()) logits[word.back()] = kOut;
  }
}

void force_token(std::span<float> logits, int64_t id) {
  PLUMB_CHECK(id >= 0 && static_cast<size_t>(id) < logits.size(), "token {} of {}", id, logits.size());
  std::fill(logits.begin(), logits.end(), kOut);
  logits[id] = 0;
}

void scale_temperature(std::span<float> logits, double temperature) {
  PLUMB_CHECK(temperature > 0, "temperature {}", temperature);
  if (temperature == 1 || logits.empty()) return;
  // Differences to the highest logit: however low the temperature, they stay in range.
  const float highest = highest_of(logits);
  if (!std::isfinite(highest)) return;
  for (float& logit : logits) {
    logit = static_cast<float>((static_cast<double>(logit) - highest) / temperature);
  }
}

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

int32_t greedy(std::span<const float> logits) {
  const auto likeliest = std::find(logits.begin(), logits.end(), highest_of(logits));
  if (likeliest == logits.end() || *likeliest == kOut) {
    throw Error(ErrorKind::input,
                "every token is ruled out as the next one, by bad_words_ids of the model's files");
  }
  return static_cast<int32_t>(likeliest - logits.begin());
}

int32_t sample(std::span<const float> logits, double uniform) {
  const int32_t likeliest = greedy(logits);
  const float highest = logits[likeliest];
  double all = 0;
  for (const float logit : logits) {
    if (logit != kOut) all += weight(logit, highest);
  }
  double left = uniform * all;
  int32_t last = likeliest;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == kOut) continue;
    const double w = weight(logits[i], highest);
    if (w > 0) last = static_cast<int32_t>(i);
    left -= w;
    if (left < 0) break;
  }
  return last;
}

}  // namespace plumb
