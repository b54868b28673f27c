#include "lab/report_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lab/sublayers.h"

namespace plumb {
namespace {

struct AtPlace {
  std::string words;
  double value = 0;
};

bool both_stacks(const RunRecords& run) {
  return run.config && run.config->has_encoder() && run.config->has_decoder();
}

// The finite values of a measure at the sub-layers of a record, in the order of the pass.
std::vector<AtPlace> at_sublayers(const RunRecords& run, const ProbeLine& record, const char* measure) {
  std::vector<AtPlace> result;
  for (const auto& site : record.sites) {
    const auto place = sublayer_place(site.at);
    const auto found = site.measures.find(measure);
    if (!place || found == site.measures.end() || !std::isfinite(found->second)) continue;
    result.push_back({in_words(*place, both_stacks(run)), found->second});
  }
  return result;
}

struct Extremes {
  AtPlace least, most;
};
Extremes extremes(const std::vector<AtPlace>& values) {
  const auto [low, high] = std::minmax_element(
      values.begin(), values.end(), [](const AtPlace& a, const AtPlace& b) { return a.value < b.value; });
  return {*low, *high};
}

std::string factor(double x) {
  return x >= 100 ? fmt::format("{:.0f}", x) : fmt::format("{:.2g}", x);
}

// Mean of the finite losses of steps [first, last).
std::optional<double> mean_loss(const std::vector<StepLine>& steps, size_t first, size_t last) {
  double sum = 0;
  int64_t count = 0;
  for (size_t i = first; i < last; ++i) {
    if (!std::isfinite(steps[i].loss)) continue;
    sum += steps[i].loss;
    ++count;
  }
  return count ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
}

void note_training(const RunRecords& run, std::vector<std::string>& notes) {
  const size_t n = run.steps.size(), some = std::clamp<size_t>(n / 4, 1, 10);
  const auto first = mean_loss(run.steps, 0, some), last = mean_loss(run.steps, n - some, n);
  if (n < 2 || !first || !last) return;
  const char* verb = *last < *first ? "fell" : "rose";
  notes.push_back(some == 1 ? fmt::format("The training loss {} from {} at the first step to {} at the last.",
                                          verb, loss_in_words(*first), loss_in_words(*last))
                            : fmt::format("The training loss {} from {} (mean of the first {} steps) to {} "
                                          "(mean of the last {}).",
                                          verb, loss_in_words(*first), some, loss_in_words(*last), some));
}

void note_validation(const RunRecords& run, std::vector<std::string>& notes) {
  std::vector<std::pair<int64_t, double>> losses;
  for (const auto& e : run.evaluations) {
    const auto found = e.measures.find("loss");
    if (found != e.measures.end() && std::isfinite(found->second)) losses.emplace_back(e.step, found->second);
  }
  if (losses.size() < 2) return;
  const auto best = std::min_element(losses.begin(), losses.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (best == losses.end() - 1) {
    notes.push_back(
        "The last evaluation is the best one: on held-out data the model was still improving at the end.");
  } else {
    notes.push_back(fmt::format(
        "On held-out data the model was best at step {} ({}); at step {} its loss was {}.", best->first,
        loss_in_words(best->second), losses.back().first, loss_in_words(losses.back().second)));
  }
}

void note_events(const RunRecords& run, std::vector<std::string>& notes) {
  const auto count = [&](auto member) {
    return std::count_if(run.steps.begin(), run.steps.end(), [&](const StepLine& s) { return s.*member; });
  };
  const auto plural = [](int64_t n, const char* one, const char* many) {
    return fmt::format("{} {}", n, n == 1 ? one : many);
  };
  if (const auto n = count(&StepLine::skipped)) {
    notes.push_back(plural(n, "step was skipped", "steps were skipped") + ": no update was made.");
  }
  if (const auto n = count(&StepLine::spike)) {
    notes.push_back(plural(n, "step was", "steps were") + " marked as a spike of the loss.");
  }
  const auto clipped =
      std::count_if(run.probe.begin(), run.probe.end(), [](const ProbeLine& p) { return p.clip < 1; });
  if (clipped > 0) {
    notes.push_back(
        fmt::format("Clipping shortened the gradient in {} of {} sampled steps.", clipped, run.probe.size()));
  }
}

// How the stream's size changes from the first sub-layer of a stack to its output.
void note_stream(const RunRecords& run, const ProbeLine& last, std::vector<std::string>& notes) {
  for (const char* stack : {"encoder", "decoder"}) {
    const double *first = nullptr, *end = nullptr;
    for (const auto& site : last.sites) {
      const auto stream = site.measures.find("stream.rms"), output = site.measures.find("output.rms");
      if (!first && site.at.starts_with(std::string(stack) + ".") && stream != site.measures.end())
        first = &stream->second;
      if (site.at == stack && output != site.measures.end()) end = &output->second;
    }
    if (!first || !end || !(*first > 0) || !(*end > 0)) continue;
    const double growth = *end / *first;
    const std::string where = both_stacks(run) ? fmt::format("the {}'s stream", stack) : "the stream";
    if (growth >= 0.95 && growth <= 1.05) {
      notes.push_back(
          fmt::format("At step {}, {} keeps its size through the depth: its RMS is {:.3g} at the first "
                      "sub-layer and {:.3g} at the end.",
                      last.step, where, *first, *end));
    } else {
      notes.push_back(
          fmt::format("At step {}, {} {} ×{} from the first sub-layer to the end (RMS {:.3g} to {:.3g}).",
                      last.step, where, growth > 1 ? "grows" : "shrinks", factor(growth), *first, *end));
    }
  }
}

void note_branches(const RunRecords& run, const ProbeLine& last, std::vector<std::string>& notes) {
  const auto added = at_sublayers(run, last, "step.added");
  if (added.empty()) return;
  const Extremes e = extremes(added);
  const auto zeros = std::count_if(added.begin(), added.end(), [](const AtPlace& a) { return a.value == 0; });
  if (zeros > 0) {
    notes.push_back(fmt::format("{} of {} branches add exactly nothing at step {}, {} among them.", zeros,
                                added.size(), last.step, e.least.words));
  }
  if (added.size() > 1) {
    notes.push_back(fmt::format(
        "Against what it keeps of the stream, {} adds least ({:.2g} of its RMS) and {} most ({:.2g}).",
        e.least.words, e.least.value, e.most.words, e.most.value));
  }
}

void note_gradients(const RunRecords& run, const ProbeLine& last, std::vector<std::string>& notes) {
  const auto g = at_sublayers(run, last, "stream.grad_rms");
  if (g.size() < 2 || !(g.front().value > 0) || !(g.back().value > 0)) return;
  notes.push_back(fmt::format("The gradient on the stream at {} is {} times that at {}.", g.front().words,
                              factor(g.front().value / g.back().value), g.back().words));
}

void note_outliers(const RunRecords& run, const ProbeLine& last, std::vector<std::string>& notes) {
  constexpr double kMassive = 50;  // a million normal elements: about 7
  AtPlace worst;
  for (const auto& site : last.sites) {
    const auto place = sublayer_place(site.at);
    const auto most = site.measures.find("stream.max"), median = site.measures.find("stream.median");
    if (!place || most == site.measures.end() || median == site.measures.end() || !(median->second > 0))
      continue;
    const double ratio = most->second / median->second;
    if (ratio > worst.value) worst = {in_words(*place, both_stacks(run)), ratio};
  }
  if (worst.value >= kMassive) {
    notes.push_back(
        fmt::format("The stream has outliers: before {}, its largest element is {:.0f} times the median one.",
                    worst.words, worst.value));
  }
  for (const ProbeLine& record : run.probe) {
    for (const auto& site : record.sites) {
      for (const char* key : {"stream.not_finite", "branch.not_finite", "output.not_finite"}) {
        const auto found = site.measures.find(key);
        if (found == site.measures.end() || found->second == 0) continue;
        notes.push_back(fmt::format("Elements that are not finite first appear at step {}, in {} of {}.",
                                    record.step, std::string(key, std::string_view(key).find('.')), site.at));
        return;
      }
    }
  }
}

void note_updates(const RunRecords& run, const ProbeLine& last, std::vector<std::string>& notes) {
  const auto updates = at_sublayers(run, last, "weights.update_ratio");
  if (updates.size() < 2) return;
  const Extremes e = extremes(updates);
  notes.push_back(fmt::format(
      "The update of step {} changes the weights of {} least ({:.2g} of their RMS) and of {} most "
      "({:.2g}).",
      last.step, e.least.words, e.least.value, e.most.words, e.most.value));
}

}  // namespace

std::string loss_in_words(double loss) {
  return std::abs(loss) < 1e4 ? fmt::format("{:.3f}", loss) : fmt::format("{:.4g}", loss);
}

std::vector<std::string> report_notes(const RunRecords& run) {
  std::vector<std::string> notes;
  note_training(run, notes);
  note_validation(run, notes);
  note_events(run, notes);
  if (run.probe.empty()) return notes;
  const ProbeLine& last = run.probe.back();
  note_stream(run, last, notes);
  note_branches(run, last, notes);
  note_gradients(run, last, notes);
  note_outliers(run, last, notes);
  note_updates(run, last, notes);
  return notes;
}

}  // namespace plumb
