// The data block of a report's page: what its scripts draw.
#pragma once

#include <string>
#include <vector>

#include "lab/run_records.h"

namespace plumb {

// More steps than this are shown as means over as many equal parts of the run.
constexpr int64_t kMostPoints = 1500;

// How many steps one point of the step charts stands for.
int64_t steps_per_point(const RunRecords& run);

// {"runs": [of each its name, steps, evaluations, events, measures by record and place, formulas]}, as JSON
// text that may stand inside a <script> element.
std::string report_data(const std::vector<RunRecords>& runs);

}  // namespace plumb
