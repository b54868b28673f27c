#include "plumb/report.h"

#include <nlohmann/json.hpp>

#include "base/embedded.h"
#include "base/file.h"
#include "lab/page.h"
#include "lab/report_page.h"
#include "plumb/error.h"

namespace plumb {
namespace {

// The rule of what the page may load is the browser's; only a live page reaches its own server.
constexpr const char* kConnect = "; connect-src 'self'";

}  // namespace

std::string report_page(const ReportParts& parts, bool live) {
  auto values = parts.html;
  values.insert(
      values.end(),
      {{"title", escaped(parts.title)},
       {"kind", parts.runs > 1 ? "two training runs" : "training run"},
       {"connect", live ? kConnect : ""},
       {"live", live ? "<p class=\"kind\" id=\"live\" role=\"status\"></p>" : ""},
       {"made", live ? "Served by <code>plumb watch</code>, from this machine to this machine."
                     : "Made by <code>plumb report</code>. This file is whole: it needs no network."},
       {"style", std::string(embedded_file("report.css"))},
       {"data", parts.data},
       {"chart.js", std::string(embedded_file("chart.js"))},
       {"script", page_script("report.js") + std::string(live ? embedded_file("report_live.js") : "")}});
  return filled(embedded_file("report.html"), values);
}

std::string live_data(const ReportParts& parts) {
  OrderedJson html = OrderedJson::object();
  for (const auto& [name, text] : parts.html) html[name] = text;
  return "{\"parts\":" + dump_json(html, -1) + ",\"data\":" + parts.data + "}";
}

std::string waiting_page(const std::string& title, const std::string& why) {
  return filled(embedded_file("waiting.html"), {{"title", escaped(title)},
                                                {"why", escaped(why)},
                                                {"style", std::string(embedded_file("report.css"))}});
}

void write_report(const std::vector<std::string>& run_folders, const std::string& out_html) {
  const bool two = run_folders.size() == 2;
  if (run_folders.size() != 1 && !two)
    throw Error(ErrorKind::usage, "a report is of one run, or of two side by side");
  if (two && absolute_path(run_folders[0]) == absolute_path(run_folders[1]))
    throw Error(ErrorKind::usage, "a report of two wants two runs: both are " + run_folders[0]);
  std::vector<RunRecords> runs;
  runs.reserve(run_folders.size());
  for (const std::string& folder : run_folders) runs.push_back(read_run(folder));
  write_file_atomically(out_html, report_page(report_parts(std::move(runs)), false));
}

}  // namespace plumb
