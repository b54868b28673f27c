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
  if (d.count > 0 && ours == theirs)
    return fmt::format("{} and {} have the same {}: {:.4g}, {}.", a, b, of, mine, seeds_text(d.count));
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

using SeriesList = std::vector<const TrialSeries*>;

std::vector<SeriesList> by_scale(const TrialSummary& t) {
  std::vector<SeriesList> groups;
  for (const TrialSeries& s : t.series) {
    const auto of_its_scale = [&](const SeriesList& g) { return g.front()->scale == s.scale; };
    auto group = std::find_if(groups.begin(), groups.end(), of_its_scale);
    if (group == groups.end()) group = groups.insert(groups.end(), SeriesList{});
    group->push_back(&s);
  }
  return groups;
}

const LrPoint& best_of(const TrialSeries* s) {
  return s->points[static_cast<size_t>(s->best)];
}

bool trains_somewhere(const TrialSeries* s) {
  return s->best >= 0 && best_of(s).stable > 0;
}

// Of series whose losses are on one scale.
void compare_losses(const TrialSummary& t, SeriesList group, std::vector<std::string>& words) {
  const std::string of_scale = group.size() < t.series.size() ? " of " + group.front()->scale : "";
  const bool alone = group.size() == 1;
  std::erase_if(group, [](const TrialSeries* s) { return !trains_somewhere(s); });
  std::stable_sort(group.begin(), group.end(),
                   [&](const auto* a, const auto* b) { return best_of(a).loss.mean < best_of(b).loss.mean; });
  if (group.empty()) {
    words.push_back(
        fmt::format("No cell{} trained to the end and is stable: there is nothing to compare.", of_scale));
    return;
  }
  if (alone) {
    const LrPoint& p = best_of(group[0]);
    words.push_back(
        fmt::format("The lowest mean loss{} is {:.4g}, at {} ({}). The grid has nothing to compare it with.",
                    of_scale, p.loss.mean, rate_text(t, p), seeds_text(p.loss.count)));
    return;
  }
  const std::string of = t.lr_key.empty() ? "loss" : "loss at its best " + t.lr_key;
  for (size_t i = 1; i < group.size(); ++i) {
    words.push_back(contest(group[0]->name, group[i]->name, best_of(group[0]).losses,
                            best_of(group[i]).losses, of, group.size() - 1));
  }
}

// A series that trains nowhere has nothing to lose to a learning rate: its sensitivity is no merit.
void compare_sensitivity(SeriesList group, std::vector<std::string>& words) {
  std::erase_if(group,
                [](const TrialSeries* s) { return s->sensitivity.count == 0 || !trains_somewhere(s); });
  std::stable_sort(group.begin(), group.end(),
                   [](const auto* a, const auto* b) { return a->sensitivity.mean < b->sensitivity.mean; });
  for (size_t i = 1; i < group.size(); ++i) {
    words.push_back(contest(group[0]->name, group[i]->name, group[0]->sensitivities, group[i]->sensitivities,
                            "sensitivity to the learning rate", group.size() - 1));
  }
}

void note_comparisons(const TrialSummary& t, std::vector<std::string>& words) {
  const std::vector<SeriesList> groups = by_scale(t);
  if (groups.size() > 1) {
    words.emplace_back(
        "The losses are of different texts or tokens: only those of the same ones are compared.");
  }
  for (const SeriesList& group : groups) compare_losses(t, group, words);
  for (const SeriesList& group : groups) compare_sensitivity(group, words);
}

}  // namespace

std::vector<std::string> trial_verdict(const TrialData& data, const TrialSummary& summary) {
  std::vector<std::string> words;
  note_comparisons(summary, words);
  note_stability(summary, words);
  note_edges(summary, words);
  note_cells(data, words);
  return words;
}

}  // namespace plumb
