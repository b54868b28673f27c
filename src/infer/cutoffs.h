// What is left to sample from, of one row of logits (V): the others get -inf. Threads: safe.
#pragma once

#include <cstdint>
#include <span>

namespace plumb {

// The cut-offs leave the k likeliest; the likeliest that together reach probability p; those at least p times
// as likely as the likeliest. Among equals the lower ids stay. At least one token stays.
// Typical ones are those whose information is nearest to the entropy of the choice, as many as reach
// probability p; keep_probable() leaves those of at least this probability, and with the entropy H of the
// choice those of at least min(bound, sqrt(bound) exp(-H)).
//   top-k: Fan 2018, 1805.04833; top-p: Holtzman 2020, 1904.09751; min-p: Nguyen 2024, 2407.01082;
//   typical: Meister 2022, 2202.00666; epsilon and eta: Hewitt 2022, 2210.15191.
void keep_top_k(std::span<float> logits, int64_t k);
void keep_top_p(std::span<float> logits, double p);
void keep_min_p(std::span<float> logits, double p);
void keep_typical(std::span<float> logits, double p);
void keep_probable(std::span<float> logits, double bound);
void keep_probable_by_entropy(std::span<float> logits, double bound);

// Exclude top choices (XTC): of the tokens at least this probable only the least likely stays, where there
// are two.
void rule_out_top(std::span<float> logits, double threshold);

// Mirostat 2 (Basu 2021, 2007.14966, without its estimate of Zipf's exponent): those of at most so many bits,
// and the likeliest.
void keep_unsurprising(std::span<float> logits, double bits);

}  // namespace plumb
