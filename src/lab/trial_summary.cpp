// From the cells of a trial to series over learning rates and seeds, and fitted slopes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

#include "lab/trial_data.h"

namespace plumb {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double number(const std::string& text) {
  return std::strtod(text.c_str(), nullptr);
}

// The place of an axis; -1 where there is none.
int axis_at(const TrialData& data, const std::string& key) {
  for (size_t i = 0; i < data.axes.size(); ++i) {
    if (data.axes[i].key == key) return static_cast<int>(i);
  }
  return -1;
}

// What a cell counts for in Wortsman's measure; NaN where it did not end.
double counted(const CellResult& cell) {
  const bool ended = cell.outcome == "finished" || cell.outcome == "diverged";
  if (!ended) return kNone;
  return std::isfinite(cell.loss) ? std::min(cell.loss, cell.initial_loss) : cell.initial_loss;
}

// What a cell's loss is of: where these differ, losses are of other tokens, and neither is the lower one.
std::string scale_of(const TrialData& data, const CellResult& cell) {
  constexpr std::array keys{"text", "task", "held-out", "tokenizer", "vocab-size", "kind"};
  std::string scale;
  for (size_t i = 0; i < data.axes.size(); ++i) {
    const std::string& key = data.axes[i].key;
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) continue;
    scale += (scale.empty() ? "" : ", ") + key + "=" + cell.values[i];
  }
  return scale;
}

std::vector<double> lowest_losses(const TrialData& data) {
  std::map<std::string, double> lowest;
  for (const CellResult& cell : data.cells) {
    double& least = lowest.emplace(scale_of(data, cell), kNone).first->second;
    if (cell.outcome == "finished" && std::isfinite(cell.loss) && !(cell.loss >= least)) least = cell.loss;
  }
  std::vector<double> by_cell;
  by_cell.reserve(data.cells.size());
  for (const CellResult& cell : data.cells) by_cell.push_back(lowest.at(scale_of(data, cell)));
  return by_cell;
}

struct Axes {
  int lr = -1, seed = -1;
  std::vector<size_t> series;
};

Axes axes_of(const TrialData& data) {
  Axes axes{.lr = axis_at(data, "lr"), .seed = axis_at(data, "seed")};
  if (axes.lr < 0) axes.lr = axis_at(data, "muon-lr");
  for (size_t i = 0; i < data.axes.size(); ++i) {
    if (static_cast<int>(i) != axes.lr && static_cast<int>(i) != axes.seed) axes.series.push_back(i);
  }
  return axes;
}

std::vector<std::string> sorted_rates(const TrialData& data, int axis) {
  if (axis < 0) return {""};
  std::vector<std::string> rates = data.axes[static_cast<size_t>(axis)].values;
  std::sort(rates.begin(), rates.end(),
            [](const std::string& a, const std::string& b) { return number(a) < number(b); });
  return rates;
}

void add_to(LrPoint& point, const CellResult& cell, size_t seed, double lowest) {
  point.cells[seed] = &cell;
  point.losses[seed] = counted(cell);
  point.ended += std::isfinite(point.losses[seed]);
  point.stable += trains(cell, lowest);
}

// Best and largest stable rate, and the sensitivity of each seed that has every rate.
void conclude(TrialSeries& s, size_t seeds) {
  for (size_t i = 0; i < s.points.size(); ++i) {
    LrPoint& p = s.points[i];
    p.loss = interval(p.losses);
    if (p.all_stable()) s.largest_stable = static_cast<int>(i);
    if (p.loss.count == 0) continue;
    const LrPoint* best = s.best < 0 ? nullptr : &s.points[static_cast<size_t>(s.best)];
    const bool better = !best || (p.all_stable() && !best->all_stable()) ||
                        (p.all_stable() == best->all_stable() && p.loss.mean < best->loss.mean);
    if (better) s.best = static_cast<int>(i);
  }
  for (int i = 0; i < s.best; ++i) {
    LrPoint& p = s.points[static_cast<size_t>(i)];
    for (const CellResult* cell : p.cells)
      p.slow += cell && cell->outcome == "finished" && std::isfinite(cell->loss) &&
                cell->loss <= cell->initial_loss;
    p.slow = std::max(0, p.slow - p.stable);
  }
  for (size_t seed = 0; seed < seeds; ++seed) {
    double sum = 0, least = std::numeric_limits<double>::infinity();
    for (const LrPoint& p : s.points) {
      sum += p.losses[seed];
      least = std::min(least, p.losses[seed]);
    }
    s.sensitivities.push_back(s.points.size() > 1 ? sum / static_cast<double>(s.points.size()) - least
                                                  : kNone);
  }
  s.sensitivity = interval(s.sensitivities);
}

std::vector<TrialSeries> series_of(const TrialData& data, const Axes& axes, size_t seeds,
                                   const std::vector<double>& lowest) {
  std::vector<TrialSeries> all;
  const std::vector<std::string> rates = sorted_rates(data, axes.lr);
  for (size_t i = 0; i < data.cells.size(); ++i) {
    const CellResult& cell = data.cells[i];
    TrialSeries fresh{.scale = scale_of(data, cell)};
    for (const size_t a : axes.series) {
      fresh.values.push_back(cell.values[a]);
      fresh.name += (fresh.name.empty() ? "" : ", ") + data.axes[a].key + "=" + cell.values[a];
    }
    if (fresh.name.empty()) fresh.name = "all cells";
    auto s = std::find_if(all.begin(), all.end(), [&](const auto& x) { return x.values == fresh.values; });
    if (s == all.end()) {
      for (const std::string& rate : rates) {
        fresh.points.push_back({.lr = rate,
                                .cells = std::vector<const CellResult*>(seeds, nullptr),
                                .losses = std::vector<double>(seeds, kNone)});
      }
      s = all.insert(all.end(), fresh);
    }
    const std::string rate = axes.lr < 0 ? "" : cell.values[static_cast<size_t>(axes.lr)];
    const auto at = std::find(rates.begin(), rates.end(), rate) - rates.begin();
    size_t seed = 0;
    if (axes.seed >= 0) {
      const auto& values = data.axes[static_cast<size_t>(axes.seed)].values;
      seed = static_cast<size_t>(
          std::find(values.begin(), values.end(), cell.values[static_cast<size_t>(axes.seed)]) -
          values.begin());
    }
    add_to(s->points[static_cast<size_t>(at)], cell, seed, lowest[i]);
  }
  for (TrialSeries& s : all) conclude(s, seeds);
  return all;
}

TrialFit fit(const std::string& what, const std::string& series, const std::vector<Line>& lines) {
  std::vector<double> slopes, shares;
  for (const Line& l : lines) {
    if (l.count < 3) continue;
    slopes.push_back(l.slope);
    shares.push_back(l.r2);
  }
  return {what, series, interval(slopes), interval(shares).mean};
}

// Within a model: the stream and its gradient over the depth.
void add_profile_fits(const TrialSeries& s, std::vector<TrialFit>& fits) {
  if (s.best < 0) return;
  std::vector<Line> stream, gradient;
  for (const CellResult* cell : s.points[static_cast<size_t>(s.best)].cells) {
    if (!cell || cell->last.stream_rms.empty()) continue;
    std::vector<double> depth;
    for (size_t i = 0; i < cell->last.stream_rms.size(); ++i) depth.push_back(static_cast<double>(i + 1));
    stream.push_back(fit_power(depth, cell->last.stream_rms));
    gradient.push_back(fit_power(depth, cell->last.stream_gradient));
  }
  fits.push_back(fit("log stream RMS by log depth, last step", s.name, stream));
  fits.push_back(fit("log gradient on the stream by log depth, last step", s.name, gradient));
}

// Over models of different depth: the loss, and the first step's gradient of the last sub-layer's weights.
void add_depth_fits(const TrialData& data, const TrialSummary& t, std::vector<TrialFit>& fits) {
  size_t depth = t.series_axes.size();
  for (size_t i = 0; i < t.series_axes.size(); ++i) {
    if (t.series_axes[i].key == "layers" || t.series_axes[i].key.ends_with("-layers")) depth = i;
  }
  if (depth == t.series_axes.size() || t.series_axes[depth].values.size() < 3) return;
  std::vector<std::vector<std::string>> done;
  for (const TrialSeries& s : t.series) {
    auto rest = s.values;
    rest[depth] = "";
    if (std::find(done.begin(), done.end(), rest) != done.end()) continue;
    done.push_back(rest);
    std::vector<Line> losses, gradients;
    for (size_t seed = 0; seed < t.seeds.size(); ++seed) {
      std::vector<double> layers, loss, gradient;
      for (const TrialSeries& other : t.series) {
        auto others = other.values;
        others[depth] = "";
        if (others != rest || other.best < 0) continue;
        const LrPoint& p = other.points[static_cast<size_t>(other.best)];
        layers.push_back(number(other.values[depth]));
        loss.push_back(p.losses[seed]);
        const bool known = p.cells[seed] && !p.cells[seed]->first.weight_gradient.empty();
        gradient.push_back(known ? p.cells[seed]->first.weight_gradient.back() : kNone);
      }
      std::vector<double> logs;
      logs.reserve(layers.size());
      for (const double l : layers) logs.push_back(std::log(l));
      losses.push_back(fit_line(logs, loss));
      gradients.push_back(fit_power(layers, gradient));
    }
    std::string name;
    for (size_t i = 0; i < rest.size(); ++i) {
      if (i != depth) name += (name.empty() ? "" : ", ") + t.series_axes[i].key + "=" + rest[i];
    }
    if (name.empty()) name = "all depths";
    fits.push_back(fit("loss by log layers", name, losses));
    fits.push_back(
        fit("log gradient of the last sub-layer's weights by log layers, first step", name, gradients));
  }
}

}  // namespace

bool trains(const CellResult& cell, double lowest) {
  return cell.outcome == "finished" && std::isfinite(cell.loss) &&
         cell.loss <= lowest + (cell.initial_loss - lowest) / 4;
}

TrialSummary summarize(const TrialData& data) {
  const Axes axes = axes_of(data);
  TrialSummary t{.lowest = lowest_losses(data)};
  for (const size_t a : axes.series) t.series_axes.push_back(data.axes[a]);
  if (axes.lr >= 0) t.lr_key = data.axes[static_cast<size_t>(axes.lr)].key;
  t.seeds = axes.seed >= 0 ? data.axes[static_cast<size_t>(axes.seed)].values : std::vector<std::string>{""};
  t.series = series_of(data, axes, t.seeds.size(), t.lowest);
  for (const TrialSeries& s : t.series) add_profile_fits(s, t.fits);
  add_depth_fits(data, t, t.fits);
  std::erase_if(t.fits, [](const TrialFit& f) { return f.slope.count == 0; });
  t.verdict = trial_verdict(data, t);
  return t;
}

}  // namespace plumb
