// Logits of the next token, one row (V), and the choice of one. A token that is ruled out has the logit -inf;
// none is NaN or +inf, which check_finite() sees to first. What is done in between: penalties.h, then
// temperature, then cutoffs.h; token_rules.h has the order. Threads: safe.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace plumb {

constexpr float kOut = -std::numeric_limits<float>::infinity();

// Throws Error(numeric) where a logit is not finite.
void check_finite(std::span<const float> logits);

// Where there is none: -inf, or what OpenMP's reduction starts from, which a compiler may take as the lowest
// finite number; is_open() is false for both.
float highest_of(std::span<const float> logits);
bool is_open(float highest);

// exp(logit - highest), whose sum over the row is softmax's denominator.
double weight(float logit, float highest);
double log_sum(std::span<const float> logits);  // log of that denominator, of logits as they are

void scale_temperature(std::span<float> logits, double temperature);  // above 0

// Logits to log-probabilities, by a sum in f64.
void log_softmax(std::span<float> logits);

// The likeliest token, the lowest id of equals. Throws Error(input) where every token is ruled out; so does
// sample().
int32_t greedy(std::span<const float> logits);

// The token in whose part of softmax(logits), summed in f64 in the order of ids, `uniform` of [0, 1) falls.
int32_t sample(std::span<const float> logits, double uniform);

}  // namespace plumb
