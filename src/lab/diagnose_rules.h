// The rules of plumb diagnose, each over a run's records. docs/diagnose.md has their thresholds in words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lab/run_records.h"
#include "plumb/diagnose.h"

namespace plumb {

double median_of(std::vector<double> values);  // NaN for none; those that are not finite are passed over

struct LossCourse {
  Course course = Course::sound;
  std::optional<int64_t> onset;
  double first = 0, best = 0, last = 0;
};
LossCourse loss_course(const RunRecords& run);

// One measure of one place over the records that have it.
struct Series {
  std::string at;
  std::vector<int64_t> steps;
  std::vector<double> values;

  // The first step from which on `holds(value)` is true of every value; nothing where it is not of the last.
  template <class Holds>
  std::optional<int64_t> since(const Holds& holds) const {
    std::optional<int64_t> step;
    for (size_t i = values.size(); i-- > 0 && holds(values[i]);) step = steps[i];
    return step;
  }
};
// Of every site that has it, in the order of the file.
std::vector<Series> site_series(const RunRecords& run, std::string_view measure);
std::vector<Series> parameter_series(const RunRecords& run, std::string_view measure);

using Findings = std::vector<Finding>;
void find_attention(const RunRecords& run, const LossCourse& course, Findings& found);
void find_output_drift(const RunRecords& run, const LossCourse& course, Findings& found);
void find_embedding_spike(const RunRecords& run, const LossCourse& course, Findings& found);
void find_dead_branch(const RunRecords& run, const LossCourse& course, Findings& found);
void find_massive(const RunRecords& run, const LossCourse& course, Findings& found);
void find_overflow(const RunRecords& run, const LossCourse& course, Findings& found);
void find_data_spike(const RunRecords& run, const LossCourse& course, Findings& found);

// Of a divergence: the place whose branch, stream or gradient first grew threefold over its median
// before the onset, and stayed so; of equals the first in the pass.
std::optional<Evidence> first_moved(const RunRecords& run, const LossCourse& course);

// For a bad course that no finding explains.
std::vector<Remedy> remedies_for(const RunRecords& run, const LossCourse& course);
// For a signature, without those that the run already has.
std::vector<Remedy> remedies_for(const RunRecords& run, Signature signature);

}  // namespace plumb
