// The kinds of fault that a comparison recognises. Each is a prediction: what one side's values would be if
// the other side had made this one mistake. In activations the prediction is worked out from one side's
// weights and what it observed before the place, where both sides still agreed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lab/trace_pass.h"

namespace plumb {

enum class FaultKind {
  missing_norm,
  missing_residual,
  transposed,
  head_permutation,
  position_offset,
  rotary_pairing,
  other_mask,
  scale,
  shift,
};
std::string fault_name(FaultKind kind);  // "missing norm"

struct Fault {
  FaultKind kind;
  std::string words;  // "B's decoder.1.attention.query.weight is A's transposed"
};

// A predicted value is right if it leaves at most this of the difference, and at most a tenth of it.
struct Judge {
  double tolerance = 0;
  double difference = 0;  // of the values as they are
  bool right(double left) const;
};

// The side that predicts, and what the two are called.
struct Predictor {
  const Transformer& model;
  const Observed& observed;
  std::string mine, other;
};

// What made `other` of the predictor's own value at the place; nothing if no kind explains it.
std::optional<Fault> recognise(const Predictor& p, const Kept& place, const Tensor& other, double tolerance);

// The same of weights: `other` is the other model's value of the parameter, of the same shape. f32.
std::optional<Fault> recognise_weight(const Predictor& p, const Parameter& parameter, const Tensor& other,
                                      double tolerance);

// |a - b| / |b| over all elements; 0 where both are zeros.
double relative_difference(const Tensor& a, const Tensor& b);

// What both recognisers share. "2.0000 times", "0.1 more": other = c mine, other = mine + d.
std::optional<Fault> scale_or_shift(const Tensor& mine, const Tensor& other, const Judge& judge,
                                    const std::string& whose);
// Which block of `mine` each block of `other` is, of `count` blocks that `block(t, i)` cuts out; empty if
// they are no permutation, or the identity.
using Block = std::function<std::vector<float>(const Tensor& t, int64_t i)>;
std::vector<int64_t> permutation_of(const Tensor& mine, const Tensor& other, int64_t count,
                                    const Block& block);

Tensor f32_of(const Tensor& stored);  // itself where it is f32

}  // namespace plumb
