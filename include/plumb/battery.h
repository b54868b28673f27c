// The stability battery: small experiments that show on this machine what papers claim of residual paths and
// norms. Each builds models, measures, and gives figures beside the published and the calibrated ones; a
// figure with bounds is a gate.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace plumb {

struct BatteryFigure {
  std::string name;
  double value = 0;
  std::optional<double> low, high;  // it passes where low <= value <= high; neither: reported only
  std::string expected;             // what was published or calibrated, in words
  bool gated() const { return low || high; }
  bool passed() const;  // a gated value that is not finite does not
};

struct BatteryCurve {
  std::string name;
  std::vector<double> x, y;
};

struct BatteryExperiment {
  int number = 0;
  std::string title, source, setting;
  std::vector<BatteryFigure> figures;
  std::string x_name, y_name;
  std::vector<BatteryCurve> curves;
  std::vector<std::string> remarks;           // where it differs from a paper, and why
  std::vector<std::string> placements;        // whose pages it stands on
  std::string machine;                        // that it was measured on
  double seconds = 0, processor_seconds = 0;  // the latter over all threads
  bool passed() const;
};

struct BatteryEntry {
  int number = 0;
  std::string title;
  bool quick = false;  // part of the quick battery
};
std::vector<BatteryEntry> battery_entries();

struct BatteryOptions {
  bool quick = false;     // the entries that are marked so
  std::vector<int> only;  // these; empty: all, or the quick ones
  std::string text;       // a text file or folder to train on; empty: one made up, for which the bounds are
  std::function<void(const BatteryEntry&)> begin;
  std::function<void(const BatteryExperiment&)> end;
};

// Throws Error(usage) for a number that is no experiment, Error(input, file) for a text that cannot be used,
// Error(interrupted) between two trainings after a stop was asked for.
std::vector<BatteryExperiment> run_battery(const BatteryOptions& options);

std::string battery_text(const BatteryExperiment& experiment);
std::string battery_json(const BatteryExperiment& experiment);  // one line
// What lines of battery_json() say, by number; of two lines of one experiment the later. Throws Error(file).
std::vector<BatteryExperiment> read_battery(const std::string& path);
void write_battery_report(const std::vector<BatteryExperiment>& experiments, const std::string& out_html);
// One page for each placement: formula, diagram, when to use it, and what these experiments measured of it.
void write_placement_pages(const std::vector<BatteryExperiment>& experiments, const std::string& folder);

}  // namespace plumb
