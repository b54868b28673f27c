// What makes tokens less or more likely, by what was written before, or rules them out: on one row of logits
// or log-probabilities (V). Ids outside the row are skipped. Threads: safe.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace plumb {

// Each distinct id of the history once: positive logits are divided by the penalty, others multiplied (Keskar
// 2019, 1909.05858, with the sign mended as in later practice).
void penalize_repetition(std::span<float> logits, std::span<const int32_t> history, double penalty);

// Takes `presence` off the logit of each distinct id of the text, and `frequency` for each time that it is
// there.
void penalize_presence(std::span<float> logits, std::span<const int32_t> text, double presence,
                       double frequency);

// Rules out every id that, behind the end of the history, would make `n` ids in a row that are in the text
// (Paulus 2017, 1705.04304, where that is the history itself). n = 0: none.
void ban_repeated_ngrams(std::span<float> logits, std::span<const int32_t> history,
                         std::span<const int32_t> text, int64_t n);

void ban_tokens(std::span<float> logits, std::span<const int64_t> ids);

// Rules out the last id of each word whose other ids are what the history ends with.
void ban_words(std::span<float> logits, std::span<const int32_t> history,
               const std::vector<std::vector<int64_t>>& words);

void force_token(std::span<float> logits, int64_t id);  // rules out every other

// DRY: an id that would make the text copy what stands before, for longer than `allowed` ids, has
// multiplier * base ^ (length - allowed) taken off, where length is what is copied already.
struct CopyPenalty {
  double multiplier = 0;  // 0: no penalty
  double base = 1.75;
  int64_t allowed = 2;
  int64_t range = 0;                           // newest ids that are looked at (0: all)
  std::function<bool(int32_t id)> is_breaker;  // a copy does not reach across one
};
void penalize_copies(std::span<float> logits, std::span<const int32_t> history, const CopyPenalty& penalty);

void add_bias(std::span<float> logits, const std::vector<std::pair<int64_t, double>>& bias);

}  // namespace plumb
