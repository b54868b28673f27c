// What the cells of a trial left, and what follows from it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lab/statistics.h"
#include "plumb/trial.h"

namespace plumb {

// A measure of the sub-layers of a stack, in the order of the pass, at one sampled step.
struct DepthProfile {
  std::vector<double> stream_rms, stream_gradient, weight_gradient;
};

struct CellResult {
  std::vector<std::string> values;  // one for each axis
  std::string outcome;              // finished, diverged, failed; "" where it has not ended
  std::string message;
  double initial_loss = 0;  // of the first step
  double loss = 0;  // of the last evaluation, or the mean of the last twentieth of the steps; NaN: none
  std::vector<double> curve_steps, curve;  // training loss, thinned
  DepthProfile first, last;                // empty without a probe
};

struct TrialData {
  std::vector<TrialAxis> axes;
  std::vector<CellResult> cells;
};

TrialData read_trial(const TrialPlan& plan);

// One learning rate of a series: a loss for each seed, NaN where there is none.
struct LrPoint {
  std::string lr;
  std::vector<const CellResult*> cells;  // by seed; null where the grid has none
  std::vector<double> losses;  // min(loss, initial loss); a diverged cell counts as its initial loss
  int ended = 0, stable = 0, slow = 0;
  Interval loss;
  bool all_stable() const { return ended > 0 && stable == ended; }
};

// A point of the grid without learning rate and seed.
struct TrialSeries {
  std::string name;   // "placement=pre-norm, layers=4"; "all cells" where there is no such axis
  std::string scale;  // "tokenizer=bytes": what its losses are of; only series of one scale are compared
  std::vector<std::string> values;
  std::vector<LrPoint> points;
  int best = -1;  // of points: the lowest mean loss among those that are stable, else of all; -1: no loss
  int largest_stable = -1;  // -1: none
  // Wortsman 2023, 2309.14322: the mean over learning rates of min(loss, initial loss) - the lowest loss, by
  // seed.
  std::vector<double> sensitivities;
  Interval sensitivity;
};

struct TrialFit {
  std::string what, series;
  Interval slope;  // over seeds
  double r2 = 0;   // mean over seeds
};

struct TrialSummary {
  std::vector<TrialAxis> series_axes;
  std::string lr_key;  // "" where the learning rate is no axis
  std::vector<std::string> seeds;
  std::vector<TrialSeries> series;
  std::vector<TrialFit> fits;
  std::vector<double> lowest;  // for each cell the lowest loss of all that are on its scale
  std::vector<std::string> verdict;
};

// Pointers in the summary are into `data`.
TrialSummary summarize(const TrialData& data);
// A cell "trains" where it made all its steps, and three quarters of the way from its initial loss to the
// lowest on its scale. It is stable where it trains; slow where it made its steps to a finite loss but does
// not train, at a smaller learning rate than the best of its series; else not stable.
bool trains(const CellResult& cell, double lowest);

std::vector<std::string> trial_verdict(const TrialData& data, const TrialSummary& summary);
std::string trial_page(const TrialPlan& plan, const TrialData& data, const TrialSummary& summary);
std::string trial_lines(const TrialData& data, const TrialSummary& summary);  // trial.jsonl

}  // namespace plumb
