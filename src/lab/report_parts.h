// What the report of one run, or of two side by side, says in words and tables, and the data of its pictures.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lab/run_records.h"

namespace plumb {

struct ReportParts {
  size_t runs = 1;
  std::string title;
  std::vector<std::pair<std::string, std::string>> html;  // by the name that report.html has for its place
  std::string data;                                       // of report_data()
};

// One run or two.
ReportParts report_parts(std::vector<RunRecords> runs);

}  // namespace plumb
