// What is gathered during one sampled step or pass, and its line in the file (plumb/probe.h).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "nn/parameter.h"
#include "probe/attention_measures.h"
#include "probe/geometry.h"
#include "probe/measures.h"
#include "probe/stream_measures.h"

namespace plumb {

// Of one tensor, or of all tensors of a place together.
struct WeightSums {
  int64_t count = 0, gradient_count = 0, update_count = 0;
  double squares = 0, gradient_squares = 0, update_squares = 0;

  WeightSums& operator+=(const WeightSums& other);
};

// Values of one parameter that scales: a norm's gain or a sub-layer's gate.
struct Extent {
  double least = 0, most = 0, mean = 0;
};
std::optional<Extent> extent_of(const Parameter& parameter);  // nothing for one that does not scale

struct ParameterRecord {
  const Parameter* parameter = nullptr;
  WeightSums sums;
  std::optional<Extent> extent;
};

// Sums over rows (N, V).
struct LogitSums {
  double log_z = 0;
  int64_t rows = 0;
  Measures values;

  void add(const Tensor& logits);
};

struct SiteRecord {
  std::string at;
  std::vector<std::pair<std::string, Measures>> quantities;  // in the order they came
  Geometry geometry;                                         // of the stream or the output
  CosineSum cosine;
  StreamMeasures streams;
  AttentionMeasures attention;
  LogitSums logits;
  WeightSums weights;
  std::map<std::string, std::map<std::string, double>>
      numbers;  // of other quantities: {"scale": {"alpha": 1}}

  const Measures* find(const std::string& quantity) const;  // null if there is none
  Measures& operator[](const std::string& quantity);
};

class StepRecord {
 public:
  SiteRecord& site(
      const std::string& at);  // made where it is new; the reference lasts until the next is made
  void add_parameter(const ParameterRecord& parameter) { parameters_.push_back(parameter); }

  // What a line says besides its measures; a pass of a model that only runs has neither training nor, often,
  // a loss.
  struct Training {
    double learning_rate = 0, clip_scale = 1, adam_eps = 0;  // no eps: 0
  };
  struct Outcome {
    int64_t step = 0;
    std::optional<double> loss;
    std::optional<Training> training;
  };
  std::string line(const Outcome& outcome);

 private:
  std::string place_of(const std::string& parameter) const;
  void add_layers(const std::string& stack);

  std::vector<SiteRecord> sites_;
  std::map<std::string, size_t> index_;
  std::vector<ParameterRecord> parameters_;
};

}  // namespace plumb
