#include "lab/trial_data.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/file.h"
#include "lab/run_records.h"
#include "lab/sublayers.h"
#include "lab/trial_run.h"
#include "plumb/error.h"

namespace plumb {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double measure(const ProbeLine::Place& place, const char* key) {
  const auto found = place.measures.find(key);
  return found == place.measures.end() ? kNone : found->second;
}

DepthProfile profile(const ProbeLine& record) {
  DepthProfile p;
  for (const auto& site : record.sites) {
    if (!sublayer_place(site.at)) continue;
    p.stream_rms.push_back(measure(site, "stream.rms"));
    p.stream_gradient.push_back(measure(site, "stream.grad_rms"));
    p.weight_gradient.push_back(measure(site, "weights.grad_norm"));
  }
  return p;
}

// The training loss as means over at most 150 equal parts.
void add_curve(const RunRecords& run, CellResult& cell) {
  const size_t n = run.steps.size(), each = (n + 149) / 150;
  for (size_t first = 0; first < n; first += each) {
    const size_t last = std::min(first + each, n);
    double sum = 0;
    for (size_t i = first; i < last; ++i) sum += run.steps[i].loss;
    cell.curve_steps.push_back(static_cast<double>(run.steps[last - 1].step));
    cell.curve.push_back(sum / static_cast<double>(last - first));
  }
}

double end_loss(const RunRecords& run) {
  if (!run.evaluations.empty()) {
    const auto& measures = run.evaluations.back().measures;
    const auto found = measures.find("loss");
    if (found != measures.end() && run.evaluations.back().step == run.steps.back().step) return found->second;
  }
  const size_t n = run.steps.size(), count = std::max<size_t>(1, n / 20);
  double sum = 0;
  for (size_t i = n - count; i < n; ++i) sum += run.steps[i].loss;
  return sum / static_cast<double>(count);
}

CellResult read_cell(const TrialPlan& plan, const TrialCell& cell) {
  CellResult r{.values = cell.values, .initial_loss = kNone, .loss = kNone};
  if (const auto end = cell_end(plan, cell)) {
    r.outcome = end->outcome;
    r.message = end->message;
  }
  const std::string folder = cell_path(plan, cell, "");
  if (!path_exists(join_path(folder, "metrics.jsonl"))) return r;
  try {
    const RunRecords run = read_run(folder);
    r.initial_loss = run.steps.front().loss;
    add_curve(run, r);
    if (r.outcome == "finished") r.loss = end_loss(run);
    if (!run.probe.empty()) {
      r.first = profile(run.probe.front());
      r.last = profile(run.probe.back());
    }
  } catch (const Error& error) {
    if (r.message.empty()) r.message = error.what();
  }
  return r;
}

}  // namespace

TrialData read_trial(const TrialPlan& plan) {
  TrialData data{.axes = plan.axes};
  for (const TrialCell& cell : plan.cells) data.cells.push_back(read_cell(plan, cell));
  return data;
}

}  // namespace plumb
