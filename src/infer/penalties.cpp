#include "infer/penalties.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "infer/logits.h"

namespace plumb {
namespace {

bool has_logit(std::span<const float> logits, int64_t id) {
  return id >= 0 && static_cast<size_t>(id) < logits.size();
}

// For each place but the last, how many ids up to it are those that the text ends with; at most `longest`.
// (The Z-function of the text read backwards.)
std::vector<size_t> suffix_lengths(std::span<const int32_t> text, size_t longest) {
  const size_t n = text.size();
  const auto back = [&](size_t i) { return text[n - 1 - i]; };
  std::vector<size_t> z(n, 0);
  for (size_t i = 1, left = 0, right = 0; i < n; ++i) {
    if (i < right) z[i] = std::min(right - i, z[i - left]);
    while (i + z[i] < n && back(z[i]) == back(i + z[i])) ++z[i];
    if (i + z[i] > right) left = i, right = i + z[i];
  }
  std::vector<size_t> lengths(n, 0);
  for (size_t i = 1; i < n; ++i) lengths[n - 1 - i] = std::min(z[i], longest);
  return lengths;
}

}  // namespace

void penalize_repetition(std::span<float> logits, std::span<const int32_t> history, double penalty) {
  if (penalty == 1) return;
  std::vector<int32_t> ids(history.begin(), history.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (const int32_t id : ids) {
    if (!has_logit(logits, id)) continue;
    float& logit = logits[id];
    logit = static_cast<float>(logit > 0 ? logit / penalty : logit * penalty);
  }
}

void penalize_presence(std::span<float> logits, std::span<const int32_t> text, double presence,
                       double frequency) {
  if (presence == 0 && frequency == 0) return;
  std::map<int32_t, int64_t> counts;
  for (const int32_t id : text) {
    if (has_logit(logits, id)) ++counts[id];
  }
  for (const auto& [id, count] : counts) {
    logits[id] = static_cast<float>(logits[id] - presence - frequency * static_cast<double>(count));
  }
}

void ban_repeated_ngrams(std::span<float> logits, std::span<const int32_t> history,
                         std::span<const int32_t> text, int64_t n) {
  if (n <= 0 || static_cast<int64_t>(history.size()) < n - 1) return;
  const std::span<const int32_t> end = history.last(n - 1);
  for (size_t i = 0; i + n <= text.size(); ++i) {
    const int32_t last = text[i + n - 1];
    if (!std::equal(end.begin(), end.end(), text.begin() + i)) continue;
    if (has_logit(logits, last)) logits[last] = kOut;
  }
}

void ban_tokens(std::span<float> logits, std::span<const int64_t> ids) {
  for (const int64_t id : ids) {
    if (has_logit(logits, id)) logits[id] = kOut;
  }
}

void ban_words(std::span<float> logits, std::span<const int32_t> history,
               const std::vector<std::vector<int64_t>>& words) {
  for (const auto& word : words) {
    if (word.empty() || word.size() - 1 > history.size()) continue;
    if (!std::equal(word.begin(), word.end() - 1, history.end() - (word.size() - 1))) continue;
    if (has_logit(logits, word.back())) logits[word.back()] = kOut;
  }
}

void force_token(std::span<float> logits, int64_t id) {
  PLUMB_CHECK(id >= 0 && static_cast<size_t>(id) < logits.size(), "token {} of {}", id, logits.size());
  std::fill(logits.begin(), logits.end(), kOut);
  logits[id] = 0;
}

void penalize_copies(std::span<float> logits, std::span<const int32_t> history, const CopyPenalty& penalty) {
  if (penalty.multiplier == 0 || history.empty()) return;
  if (penalty.range > 0) history = history.last(std::min<size_t>(penalty.range, history.size()));
  // Nothing is copied across a breaker.
  size_t longest = 0;
  while (longest < history.size() && !penalty.is_breaker(history[history.size() - 1 - longest])) ++longest;
  const std::vector<size_t> lengths = suffix_lengths(history, longest);
  std::map<int32_t, size_t> copied;  // by the id that would make the copy longer
  for (size_t i = 0; i + 1 < history.size(); ++i) {
    if (static_cast<int64_t>(lengths[i]) < penalty.allowed) continue;
    const int32_t next = history[i + 1];
    if (has_logit(logits, next)) copied[next] = std::max(copied[next], lengths[i]);
  }
  constexpr double kMost = 1e30;  // far beyond any logit, and finite
  for (const auto& [id, length] : copied) {
    const double power =
        std::pow(penalty.base, static_cast<double>(length) - static_cast<double>(penalty.allowed));
    logits[id] = static_cast<float>(logits[id] - std::min(kMost, penalty.multiplier * power));
  }
}

void add_bias(std::span<float> logits, const std::vector<std::pair<int64_t, double>>& bias) {
  for (const auto& [id, value] : bias) {
    if (has_logit(logits, id)) logits[id] = static_cast<float>(logits[id] + value);
  }
}

}  // namespace plumb
