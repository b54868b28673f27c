// What is done to the logits of the next token before one is chosen, as plain functions over one row (V). The
// order, as the reference generators have it:
//   penalize_repetition, ban_words, force_token, scale_temperature, keep_top_k, keep_top_p, keep_min_p
// and then greedy() or sample(). A token that is ruled out has the logit -inf; none is NaN or +inf, which
// check_finite() sees to first. Threads: safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plumb {

// Throws Error(numeric) where a logit is not finite.
void check_finite(std::span<const float> logits);

// Each distinct id of the history once: positive logits are divided by the penalty, others multiplied (Keskar
// 2019, 1909.05858, with the sign mended as in later practice). Ids outside the row are skipped.
void penalize_repetition(std::span<float> logits, std::span<const int32_t> history, double penalty);

// Rules out the last id of each word whose other ids are what the history ends with.
void ban_words(std::span<float> logits, std::span<const int32_t> history,
               const std::vector<std::vector<int64_t>>& words);

void force_token(std::span<float> logits, int64_t id);  // rules out every other

void scale_temperature(std::span<float> logits, double temperature);  // above 0

// The cut-offs leave the k likeliest; the likeliest that together reach probability p; those at least p times
// as likely as the likeliest. Among equals the lower ids stay. At least one token stays.
//   top-k: Fan 2018, 1805.04833; top-p: Holtzman 2020, 1904.09751; min-p: Nguyen 2024, 2407.01082.
void keep_top_k(std::span<float> logits, int64_t k);
void keep_top_p(std::span<float> logits, double p);
void keep_min_p(std::span<float> logits, double p);

// The likeliest token, the lowest id of equals. Throws Error(input) where every token is ruled out; so does
// sample().
int32_t greedy(std::span<const float> logits);

// The token in whose part of softmax(logits), summed in f64 in the order of ids, `uniform` of [0, 1) falls.
int32_t sample(std::span<const float> logits, double uniform);

}  // namespace plumb
