// What is gathered during one sampled step, and its line in probe.jsonl (the format is in plumb/probe.h).
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "probe/measures.h"

namespace plumb {

// Of one tensor, or of all tensors of a place together.
struct WeightSums {
  int64_t count = 0, gradient_count = 0, update_count = 0;
  double squares = 0, gradient_squares = 0, update_squares = 0;

  WeightSums& operator+=(const WeightSums& other);
};

struct SiteRecord {
  std::string at;
  std::vector<std::pair<std::string, Measures>> quantities;  // in the order they came
  CosineSum cosine;
  WeightSums weights;

  const Measures* find(const std::string& quantity) const;  // null if there is none
  Measures& operator[](const std::string& quantity);
};

class StepRecord {
 public:
  SiteRecord& site(
      const std::string& at);  // made where it is new; the reference lasts until the next is made
  void add_parameter(const std::string& name, const WeightSums& sums);

  struct Outcome {
    int64_t step = 0;
    double loss = 0, learning_rate = 0, clip_scale = 1;
  };
  std::string line(const Outcome& outcome);

 private:
  std::string place_of(const std::string& parameter) const;

  std::vector<SiteRecord> sites_;
  std::map<std::string, size_t> index_;
  std::vector<std::pair<std::string, WeightSums>> parameters_;
};

}  // namespace plumb
