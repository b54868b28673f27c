// The page of a training run, as a file or served while the run goes on.
#pragma once

#include <string>

#include "lab/report_parts.h"

namespace plumb {

// A live page asks the server that it came from for "data", and shows what live_data() says.
std::string report_page(const ReportParts& parts, bool live);
std::string live_data(const ReportParts& parts);  // JSON
// In place of the page of a run that has no step yet: looks again every two seconds.
std::string waiting_page(const std::string& title, const std::string& why);

}  // namespace plumb
