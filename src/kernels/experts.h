// Routing of tokens to experts: choice, weights, grouping by expert, and the load-balancing loss.
//   Shazeer et al., arXiv 1701.06538; Switch: Fedus et al., arXiv 2101.03961; Mixtral: arXiv 2401.04088;
//   sigmoid router with a bias for choosing: DeepSeek-V3, arXiv 2412.19437.
// N tokens, E experts, k chosen per token; an assignment is (token, slot), number token * k + slot.
// Threads: OpenMP inside; no result depends on their number, bit for bit.
#pragma once

#include <cstdint>

namespace plumb {

enum class RouterScore { softmax, sigmoid };

// How a group of experts is scored: by the score of its best one (DeepSeek-V2, 2405.04434), or of its best
// two (DeepSeek-V3).
enum class GroupScore { best, best_two };

// Scores (N, E) = softmax or sigmoid of the logits; the k largest of score + selection_bias are chosen, the
// larger first, ties to the lower expert; weight = score (without the bias), divided by the sum of the k with
// `normalise`, times `scaling`. 1 <= k <= E. With several groups, which are of E / groups neighbours each,
// only the experts of the best top_groups of them are to choose from: k <= top_groups * E / groups.
struct RouteForward {
  int64_t rows = 0, experts = 0, top_k = 0;
  RouterScore score = RouterScore::softmax;
  bool normalise = true;
  float scaling = 1;
  const float* logits = nullptr;          // (N, E)
  const float* selection_bias = nullptr;  // (E) or null
  float* scores = nullptr;                // (N, E)
  int32_t* chosen = nullptr;              // (N, k)
  float* weights = nullptr;               // (N, k)
  int64_t groups = 1, top_groups = 1;
  GroupScore group_score = GroupScore::best;
};
void route_forward(const RouteForward& a);

// dlogits from the gradient of the weights; the choice is a constant.
struct RouteBackward {
  int64_t rows = 0, experts = 0, top_k = 0;
  RouterScore score = RouterScore::softmax;
  bool normalise = true;
  float scaling = 1;
  const float* scores = nullptr;
  const int32_t* chosen = nullptr;
  const float* dweights = nullptr;  // (N, k)
  float* dlogits = nullptr;         // (N, E)
  bool add = false;
};
void route_backward(const RouteBackward& a);

// Sorts the assignments by expert, tokens in order within one: expert e has places offsets[e] .. offsets[e +
// 1].
struct GroupByExpert {
  int64_t rows = 0, experts = 0, top_k = 0;
  const int32_t* chosen = nullptr;  // (N, k)
  int64_t* offsets = nullptr;       // (E + 1)
  int32_t* token = nullptr;         // (N * k): the token at each place; the index for gather_rows
  int32_t* place = nullptr;         // (N * k): the place of each assignment
};
void group_by_expert(const GroupByExpert& a);

// y[n] = sum over slots of weights[n, slot] * x[place[n, slot]], or += with add. Null weights are ones: this
// is the backward of the gather by `token`.
struct CombineForward {
  int64_t rows = 0, width = 0, top_k = 0;
  const int32_t* place = nullptr;
  const float* weights = nullptr;  // (N, k) or null
  const float* x = nullptr;        // (N * k, C)
  float* y = nullptr;              // (N, C), not x
  bool add = false;
};
void combine_forward(const CombineForward& a);

// dx[place[n, slot]] = weights[n, slot] * dy[n];  dweights[n, slot] = <dy[n], x[place[n, slot]]>. Both
// overwrite.
struct CombineBackward {
  int64_t rows = 0, width = 0, top_k = 0;
  const int32_t* place = nullptr;
  const float* weights = nullptr;
  const float* x = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;        // (N * k, C)
  float* dweights = nullptr;  // (N, k)
};
void combine_backward(const CombineBackward& a);

// The load-balancing loss (Switch, 2101.03961) is E * sum over e of f_e * p_e: f_e = assignments to e / N,
// p_e = mean over tokens of the softmax of the logits, for either score. Balanced: k.
//
// probability (E) += the sum over tokens of the softmax of logits (N, E).
void add_probabilities(int64_t rows, int64_t experts, const float* logits, double* probability);

// dlogits += the gradient of sum over tokens and e of weight[e] * p_e, (N, E).
struct ProbabilityBackward {
  int64_t rows = 0, experts = 0;
  const float* logits = nullptr;   // (N, E)
  const double* weight = nullptr;  // (E)
  float* dlogits = nullptr;        // (N, E)
};
void probability_backward(const ProbabilityBackward& a);

}  // namespace plumb
