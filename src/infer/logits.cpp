#include "infer/logits.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "plumb/error.h"

namespace plumb {

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

float highest_of(std::span<const float> logits) {
  float highest = kOut;
#pragma omp simd reduction(max : highest)
  for (size_t i = 0; i < logits.size(); ++i) highest = logits[i] > highest ? logits[i] : highest;
  return highest;
}

bool is_open(float highest) {
  return highest > std::numeric_limits<float>::lowest();
}

double weight(float logit, float highest) {
  return std::exp(static_cast<double>(logit) - highest);
}

double log_sum(std::span<const float> logits) {
  const float highest = highest_of(logits);
  double all = 0;
  for (const float logit : logits) {
    if (logit != kOut) all += weight(logit, highest);
  }
  return highest + std::log(all);
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

void log_softmax(std::span<float> logits) {
  if (!is_open(highest_of(logits))) return;
  const double all = log_sum(logits);
  for (float& logit : logits) logit = static_cast<float>(logit - all);
}

int32_t greedy(std::span<const float> logits) {
  const auto likeliest = std::find(logits.begin(), logits.end(), highest_of(logits));
  if (likeliest == logits.end() || *likeliest == kOut) {
    throw Error(ErrorKind::input,
                "every token is ruled out as the next one, by options or by bad_words_ids, suppress_tokens "
                "or the like "
                "of the model's files");
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
