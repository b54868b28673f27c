// The battery's report.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/progress.h"
#include "lab/battery.h"
#include "lab/page.h"
#include "plumb/battery.h"

namespace plumb {
namespace {

std::string bounds_text(const BatteryFigure& f) {
  if (f.low && f.high) return fmt::format("{:.4g} to {:.4g}", *f.low, *f.high);
  if (f.low) return fmt::format("{:.4g} or more", *f.low);
  return f.high ? fmt::format("{:.4g} or less", *f.high) : "reported";
}

std::string figures_table(const BatteryExperiment& e) {
  std::vector<std::vector<std::string>> rows{{"figure", "here", "has to be", "", "published or calibrated"}};
  for (const BatteryFigure& f : e.figures) {
    rows.push_back({f.name, fmt::format("{:.4g}", f.value), bounds_text(f),
                    !f.gated()   ? ""
                    : f.passed() ? "pass"
                                 : "FAIL",
                    f.expected});
  }
  return html_table("What was measured: " + e.title, rows);
}

std::string section(const BatteryExperiment& e) {
  std::string html = fmt::format(
      "<section id=\"e{0}\"><h2>{0}. {1}: {2}</h2>\n<p class=\"lead\">{3}. Setting: {4}. Took {5} of "
      "processor time.</p>\n",
      e.number, escaped(e.title), e.passed() ? "pass" : "FAIL", escaped(e.source), escaped(e.setting),
      format_duration(e.processor_seconds));
  for (const std::string& r : e.remarks) html += "<p class=\"notice\">" + escaped(r) + "</p>\n";
  html += figures_table(e);
  if (!e.curves.empty()) {
    html += fmt::format(
        "<figure id=\"f{}\" class=\"wide\"><figcaption><h3>{}</h3><p>By {}.</p></figcaption></figure>\n",
        e.number, escaped(e.y_name), escaped(e.x_name));
  }
  return html + "</section>\n";
}

}  // namespace

void write_battery_report(const std::vector<BatteryExperiment>& experiments, const std::string& out_html) {
  OrderedJson data = {{"sites", OrderedJson::array()}, {"experiments", OrderedJson::array()}};
  std::vector<std::vector<std::string>> rows{{"experiment", "result", "gates passed", "processor time"}};
  std::string sections;
  int failed = 0;
  double seconds = 0, processor_seconds = 0;
  for (const BatteryExperiment& e : experiments) {
    data["experiments"].push_back(OrderedJson::parse(battery_json(e)));
    int gates = 0, passed = 0;
    for (const BatteryFigure& f : e.figures) {
      gates += f.gated();
      passed += f.gated() && f.passed();
    }
    failed += !e.passed();
    seconds += e.seconds;
    processor_seconds += e.processor_seconds;
    rows.push_back({fmt::format("{}. {}", e.number, e.title), e.passed() ? "pass" : "FAIL",
                    fmt::format("{} of {}", passed, gates), format_duration(e.processor_seconds)});
    sections += section(e);
  }
  const std::string summary = fmt::format(
      "<section><h2>Summary</h2>\n<p class=\"words\">{} of {} experiments pass, in {} ({} of processor time) "
      "on "
      "{}.</p>\n{}</section>\n",
      experiments.size() - static_cast<size_t>(failed), experiments.size(), format_duration(seconds),
      format_duration(processor_seconds), escaped(battery::machines(experiments)),
      html_table("Experiments", rows));
  write_file_atomically(out_html, walk_page({"battery", "The stability battery", summary + sections,
                                             script_data(data), "battery.js"}));
}

}  // namespace plumb
