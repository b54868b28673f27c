// What a comparison found; plumb/compare.h says what the numbers are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lab/compare_kinds.h"
#include "lab/trace_pass.h"
#include "plumb/compare.h"

namespace plumb {

struct PlaceDifference {
  std::string module, quantity;  // of a weight: its name, and ""
  double difference = 0;         // the largest of by_token; of a weight: over all its elements
  std::vector<double> by_token;  // (T)
  std::string name() const { return quantity.empty() ? module : module + "." + quantity; }
};

struct ComparisonData {
  bool weights = false;
  std::string a, b;
  double tolerance = 0;
  int64_t tokens = 0, decoder_tokens = 0;
  std::vector<PlaceDifference> places;      // what both have, in the order of the pass, or of the table
  std::vector<std::string> only_a, only_b;  // places that one has
  std::vector<std::string> config;          // "norm_eps: 1e-05 / 1e-06": fields that differ
  std::optional<size_t> first;              // the first place beyond the tolerance
  std::optional<Fault> fault;               // none: equal, or none of the known kinds
};

// a and b (1, T, C), of one shape.
std::vector<double> difference_by_token(const Tensor& a, const Tensor& b);

// The tensors of a reference as places, checked against what the model could have.
struct Reference {
  CompareInput input;
  Observed observed;
};
Reference read_reference(const Model& model, const std::string& path);

std::string comparison_text(const ComparisonData& data);
std::string comparison_page(const ComparisonData& data, const std::string& title);

}  // namespace plumb
