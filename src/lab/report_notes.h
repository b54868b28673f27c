// What a run's records show, in plain words with the figures: no sentence is there without a record that it
// states.
#pragma once

#include <string>
#include <vector>

#include "lab/run_records.h"

namespace plumb {

// Wants add_contributions() to have been called.
std::vector<std::string> report_notes(const RunRecords& run);

}  // namespace plumb
