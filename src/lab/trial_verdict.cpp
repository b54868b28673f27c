// The words of a trial: nothing that its cells do not support.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lab/trial_data.h"

namespace plumb {
namespace {

constexpr int kFewestSeeds = 3;

std::string seeds_text(int count) {
  return fmt::format("{} seed{}", count, count == 1 ? "" : "s");
}

void note_cells(const TrialData& data, std::vector<std::string>& words) {
  int missing = 0, failed = 0;
  std::string first;
  for (const CellResult& cell : data.cells) {
    missing += cell.outcome.empty();
    failed += cell.outcome == "failed";
    if (cell.outcome == "failed" && first.empty()) first = cell.message;
  }
  if (missing > 0)
    words.push_back(fmt::format("{} of {} cells have no result yet: what follows leaves them out.", missing,
                                data.cells.size()));
  if (failed > 0)
    words.push_back(
        fmt::format("{} of {} cells failed for a reason that is not their training, and are left out "
                    "(the first: {}).",
                    failed, data.cells.size(), first));
}

std::string rate_text(const TrialSummary& t, const LrPoint& p) {
  return t.lr_key.empty() ? std::string("the one learning rate") : t.lr_key + " " + p.lr;
}

void note_stability(const TrialSummary& t, std::vector<std::string>& words) {
  std::vector<std::string> sound;
  for (const TrialSeries& s : t.series) {
    int ended = 0, stable = 0;
    std::string lost, slow;
    for (const LrPoint& p : s.points) {
      ended += p.ended;
      stable += p.stable;
      const int gone = p.ended - p.stable - p.slow;
      if (gone > 0)
        lost += fmt::format("{}{} in {} of {}", lost.empty() ? "" : ", ", rate_text(t, p), gone,
                            seeds_text(p.ended));
      if (p.slow > 0) slow += (slow.empty() ? "" : ", ") + rate_text(t, p);
    }
    if (ended == 0) continue;
    if (stable == 0) {
      words.push_back(
          fmt::format("{} does not train at any learning rate of the grid ({} cells).", s.name, ended));
      continue;
    }
    if (lost.empty()) sound.push_back(s.name);
    if (!lost.empty()) words.push_back(fmt::format("{} is not stable at {}.", s.name, lost));
    if (!slow.empty())
      words.push_back(fmt::format("{} is slow at {}: too small for so few steps.", s.name, slow));
  }
  if (sound.size() == t.series.size()) {
    words.emplace_back("No cell that ended is unstable.");
  } else if (!sound.empty()) {
    words.push_back(fmt::format("No cell that ended is unstable of {}.", fmt::join(sound, "; ")));
  }
}

void note_edges(const TrialSummary& t, std::vector<std::string>& words) {
  for (const TrialSeries& s : t.series) {
    if (s.best < 0 || s.points.size() < 2) continue;
    const auto at = static_cast<size_t>(s.best);
    if (at != 0 && at + 1 != s.points.size()) continue;
    words.push_back(
        fmt::format("The best {} of {}, {}, is the {} of the grid: a better one may lie beyond it.", t.lr_key,
                    s.name, s.points[at].lr, at == 0 ? "smallest" : "largest"));
  }
}

// Differences b - a, seed by seed.
std::vector<double> differences(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> d;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) d.push_back(b[i] - a[i]);
  return d;
}

// What two values by seed say about which is lower; `comparisons` of this kind are made at once.
std::string contest(const std::string& a, const std::string& b, const std::vector<double>& ours,
                    const std::vector<double>& theirs, const std::string& of, size_t comparisons) {
  const Interval d = interval(differences(ours, theirs), 0.05 / static_cast<double>(comparisons));
  const double mine = interval(ours).mean, other = interval(theirs).mean;
  const std::string figures = fmt::format("{:.4g} against {:.4g}", mine, other);
  if (d.count < kFewestSeeds) {
    return fmt::format(
        "{} has the lower {} than {} ({}), but {} cannot tell a difference from chance: it takes {} "
        "or more.",
        a, of, b, figures, seeds_text(d.count), kFewestSeeds);
  }
  const std::string where =
      fmt::format("difference {:.3g}, {:.3g} % interval {:.3g} to {:.3g}, {}", d.mean,
                  100 - 5.0 / static_cast<double>(comparisons), d.low, d.high, seeds_text(d.count));
  if (d.low > 0) return fmt::format("{} has a lower {} than {}: {} ({}).", a, of, b, figures, where);
  return fmt::format("{} and {} cannot be told apart by their {}: {} ({}).", a, b, of, figures, where);
}

void note_losses(const TrialSummary& t, std::vector<std::string>& words) {
  std::vector<const TrialSeries*> order;
  for (const TrialSeries& s : t.series) {
    if (s.best >= 0 && s.points[static_cast<size_t>(s.best)].stable > 0) order.push_back(&s);
  }
  const auto point = [](const TrialSeries* s) -> const LrPoint& {
    return s->points[static_cast<size_t>(s->best)];
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const auto* a, const auto* b) { return point(a).loss.mean < point(b).loss.mean; });
  if (order.empty()) {
    words.emplace_back("No cell trained to the end and is stable: there is nothing to compare.");
    return;
  }
  if (t.series.size() == 1) {
    const LrPoint& p = point(order[0]);
    words.push_back(
        fmt::format("The lowest mean loss is {:.4g}, at {} ({}). The grid has nothing to compare it with.",
                    p.loss.mean, rate_text(t, p), seeds_text(p.loss.count)));
    return;
  }
  const std::string of = t.lr_key.empty() ? "loss" : "loss at its best " + t.lr_key;
  for (size_t i = 1; i < order.size(); ++i) {
    words.push_back(contest(order[0]->name, order[i]->name, point(order[0]).losses, point(order[i]).losses,
                            of, order.size() - 1));
  }
}

void note_sensitivity(const TrialSummary& t, std::vector<std::string>& words) {
  std::vector<const TrialSeries*> order;
  for (const TrialSeries& s : t.series) {
    if (s.sensitivity.count > 0) order.push_back(&s);
  }
  if (order.size() < 2) return;
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->sensitivity.mean < b->sensitivity.mean; });
  for (size_t i = 1; i < order.size(); ++i) {
    words.push_back(contest(order[0]->name, order[i]->name, order[0]->sensitivities, order[i]->sensitivities,
                            "sensitivity to the learning rate", order.size() - 1));
  }
}

}  // namespace

std::vector<std::string> trial_verdict(const TrialData& data, const TrialSummary& summary) {
  std::vector<std::string> words;
  note_losses(summary, words);
  note_sensitivity(summary, words);
  note_stability(summary, words);
  note_edges(summary, words);
  note_cells(data, words);
  return words;
}

}  // namespace plumb
