// What a run's records show, in plain words with the figures: no sentence is there without a record that it
// states.
#pragma once

#include <string>
#include <vector>

#include "lab/run_records.h"

namespace plumb {

std::string loss_in_words(double loss);  // "3.141"; of a run that diverged "2.486e+12"

// Wants add_contributions() to have been called.
std::vector<std::string> report_notes(const RunRecords& run);

}  // namespace plumb
