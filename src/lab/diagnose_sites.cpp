// What the probe's records of places tell: attention, the head, embeddings, branches and the stream.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "lab/diagnose_rules.h"
#include "lab/sublayers.h"

namespace plumb {
namespace {

constexpr double kLogit = 100, kLogitGrowth = 5;  // Wortsman 2023: sound runs stay below, 1e4 diverges
constexpr double kEntropy = 0.1;                  // of ln n
constexpr double kDrift = 15;                     // nats that log Z leaves its start by, or |z| above
constexpr double kDriftLogit = 100;
constexpr double kDivergedDrift = 1.0 / 3;  // of both, where the loss itself went up: by confident errors
constexpr double kGradientSpike = 10, kStep = 3;  // over the median, over the records just before
constexpr size_t kSpikeRecords = 3;               // that tell what is usual
constexpr double kDead = 1e-6;
constexpr size_t kDeadRecords = 3;
constexpr double kMassive = 100, kMassiveOverMedian = 1000;  // Sun 2024
constexpr double kMoved = 3;
constexpr double kHalfMax = 65504;

using Places = std::vector<ProbeLine::Place> ProbeLine::*;

std::vector<Series> series_of(const RunRecords& run, Places places, std::string_view measure) {
  std::vector<Series> all;
  std::map<std::string, size_t> index;
  for (const ProbeLine& line : run.probe) {
    for (const auto& place : line.*places) {
      const auto found = place.measures.find(std::string(measure));
      if (found == place.measures.end()) continue;
      const auto [entry, is_new] = index.emplace(place.at, all.size());
      if (is_new) all.push_back({.at = place.at, .steps = {}, .values = {}});
      all[entry->second].steps.push_back(line.step);
      all[entry->second].values.push_back(found->second);
    }
  }
  return all;
}

Evidence evidence_at(const Series& s, std::string_view measure, int64_t step) {
  const auto i = static_cast<size_t>(std::find(s.steps.begin(), s.steps.end(), step) - s.steps.begin());
  return {std::string(measure), s.at, step, s.values[std::min(i, s.values.size() - 1)]};
}

// First, when it began, last; each step once.
void add_evidence(Finding& f, const Series& s, std::string_view measure, int64_t began) {
  std::vector<int64_t> steps{s.steps.front(), began, s.steps.back()};
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  for (const int64_t step : steps) f.evidence.push_back(evidence_at(s, measure, step));
}

struct Onset {
  const Series* series = nullptr;
  int64_t step = 0;
};

// The series of which `since` holds earliest; of equals the first in the pass.
template <class Since>
Onset earliest(const std::vector<Series>& all, const Since& since) {
  Onset onset;
  for (const Series& s : all) {
    const std::optional<int64_t> step = since(s);
    if (step && (!onset.series || *step < onset.step)) onset = {&s, *step};
  }
  return onset;
}

Finding finding(const RunRecords& run, Signature signature, const Onset& onset, std::string_view measure) {
  Finding f{.signature = signature, .began = onset.step, .at = onset.series->at};
  add_evidence(f, *onset.series, measure, onset.step);
  f.remedies = remedies_for(run, signature);
  return f;
}

bool above(double x, double limit) {  // or not finite
  return !(x <= limit);
}

const Series* find_series(const std::vector<Series>& all, const std::string& at) {
  for (const Series& s : all) {
    if (s.at == at) return &s;
  }
  return nullptr;
}

// Times the median of what was before.
double growth(const Series& s, size_t i) {
  return s.values[i] / median_of({s.values.begin(), s.values.begin() + static_cast<std::ptrdiff_t>(i)});
}

// Whether value i stands out of the records on both sides. Gradients of an init of zero, as Fixup's, grow to
// a size that the later records then have.
bool stands_out(const Series& s, size_t i) {
  const auto at = s.values.begin() + static_cast<std::ptrdiff_t>(i);
  const double before = *std::max_element(at - static_cast<std::ptrdiff_t>(kSpikeRecords), at);
  const double after = median_of({at + 1, s.values.end()});  // NaN where there is none
  return above(*at, kStep * before) && !(*at <= kGradientSpike * after);
}

// How much the layer next to the head grew at this step: a spike of everything begins there, one
// of the embeddings grows towards them.
double growth_at_head(const std::vector<Series>& layers, int64_t step) {
  if (layers.empty()) return 0;
  const Series& s = layers.back();
  const auto i = std::find(s.steps.begin(), s.steps.end(), step) - s.steps.begin();
  return i > 0 && i < std::ssize(s.steps) ? growth(s, static_cast<size_t>(i)) : 0;
}

}  // namespace

std::vector<Series> site_series(const RunRecords& run, std::string_view measure) {
  return series_of(run, &ProbeLine::sites, measure);
}

std::vector<Series> parameter_series(const RunRecords& run, std::string_view measure) {
  return series_of(run, &ProbeLine::parameters, measure);
}

std::optional<Evidence> first_moved(const RunRecords& run, const LossCourse& course) {
  if (course.course != Course::diverged || !course.onset) return std::nullopt;
  std::optional<Evidence> first;
  for (const char* measure : {"branch.rms", "stream.rms", "weights.grad_norm"}) {
    const std::vector<Series> all = site_series(run, measure);
    const Onset onset = earliest(all, [&](const Series& s) -> std::optional<int64_t> {
      std::vector<double> before;
      for (size_t i = 0; i < s.values.size() && s.steps[i] < *course.onset; ++i)
        before.push_back(s.values[i]);
      const double usual = median_of(before);
      return std::isfinite(usual) ? s.since([&](double x) { return above(x, kMoved * usual); })
                                  : std::nullopt;
    });
    if (onset.series && (!first || onset.step < first->step))
      first = evidence_at(*onset.series, measure, onset.step);
  }
  return first;
}

void find_attention(const RunRecords& run, const LossCourse& course, Findings& found) {
  const std::vector<Series> logits = site_series(run, "attention.max_logit"),
                            entropies = site_series(run, "attention.entropy");
  const Onset grown = earliest(logits, [](const Series& s) -> std::optional<int64_t> {
    const double limit = std::max(kLogit, kLogitGrowth * s.values.front());
    return s.values.size() > 1 ? s.since([&](double x) { return above(x, limit); }) : std::nullopt;
  });
  if (grown.series) {
    Finding f = finding(run, Signature::attention_logit_growth, grown, "attention.max_logit");
    f.words = fmt::format(
        "the largest attention logit of {} grew from {:.3g} to {:.3g}: softmax over such logits "
        "picks one key and passes no gradient.",
        f.at, grown.series->values.front(), grown.series->values.back());
    found.push_back(std::move(f));
  }
  // A head that looks at one key is what some tasks want: only with large logits or a bad course is it a
  // fault.
  const Onset collapsed = earliest(entropies, [&](const Series& s) -> std::optional<int64_t> {
    const Series* z = find_series(logits, s.at);
    const bool large = z && above(z->values.back(), kLogit / 2);
    if (!large && course.course == Course::sound) return std::nullopt;
    if (!(s.values.front() > 3 * kEntropy)) return std::nullopt;
    return s.since([](double x) { return !(x >= kEntropy); });
  });
  if (!collapsed.series) return;
  Finding f = finding(run, Signature::entropy_collapse, collapsed, "attention.entropy");
  f.words = fmt::format(
      "the attention of {} lost its entropy: {:.3g} of ln n at step {}, {:.2g} at the end. It looks "
      "at one key wherever the others are.",
      f.at, collapsed.series->values.front(), collapsed.series->steps.front(),
      collapsed.series->values.back());
  found.push_back(std::move(f));
}

void find_output_drift(const RunRecords& run, const LossCourse& course, Findings& found) {
  const double share = course.course == Course::diverged ? kDivergedDrift : 1;
  const std::vector<Series> log_z = site_series(run, "logits.log_z"),
                            largest = site_series(run, "logits.max");
  const auto moved = [](double limit) {
    return [limit](const Series& s) {
      return s.since([&](double x) { return above(std::abs(x - s.values.front()), limit); });
    };
  };
  const Onset normaliser = earliest(log_z, moved(share * kDrift)),
              size = earliest(largest, moved(share * kDriftLogit));
  if (!normaliser.series && !size.series) return;
  const bool by_size = !normaliser.series;
  const Onset& onset = by_size ? size : normaliser;
  Finding f = finding(run, Signature::output_logit_drift, onset, by_size ? "logits.max" : "logits.log_z");
  if (!by_size && !largest.empty()) add_evidence(f, largest.front(), "logits.max", onset.step);
  f.words = fmt::format(
      "the head's logits left their place: {} went from {:.3g} to {:.3g}, which the loss itself does "
      "not hold back.",
      by_size ? "the largest |logit|" : "log Z", onset.series->values.front(), onset.series->values.back());
  found.push_back(std::move(f));
}

void find_embedding_spike(const RunRecords& run, const LossCourse& course, Findings& found) {
  const std::vector<Series> layers = site_series(run, "layer.grad_norm");
  for (const Series& s : site_series(run, "weights.grad_norm")) {
    if (!s.at.ends_with("token_embedding")) continue;
    for (size_t i = kSpikeRecords; i < s.values.size(); ++i) {
      const double own = growth(s, i), usual = growth_at_head(layers, s.steps[i]);
      if (!(own > kGradientSpike) || own < 1.25 * usual) continue;
      if (course.course == Course::sound && !stands_out(s, i)) continue;
      Finding f{.signature = Signature::embedding_gradient_spike, .began = s.steps[i], .at = s.at};
      f.evidence = {{"weights.grad_norm", s.at, s.steps[i - 1], s.values[i - 1]},
                    {"weights.grad_norm", s.at, s.steps[i], s.values[i]}};
      f.words = fmt::format(
          "the gradient of {} is {:.3g} times its usual size at step {}, that of the last layer {:.2g} "
          "times: it grew "
          "on its way back.",
          s.at, own, s.steps[i], usual);
      f.remedies = remedies_for(run, f.signature);
      found.push_back(std::move(f));
      return;
    }
  }
}

// A branch that adds nothing, or a matrix in it that no gradient reaches any more.
void find_dead_branch(const RunRecords& run, const LossCourse&, Findings& found) {
  const auto dead_since = [&](const Series& s, bool from_start) -> std::optional<int64_t> {
    if (s.values.size() < kDeadRecords || run.probe.back().step != s.steps.back()) return std::nullopt;
    const double highest = *std::max_element(s.values.begin(), s.values.end());
    const auto step = s.since([&](double x) { return x <= (from_start ? kDead : kDead * highest); });
    if (!step || *step > s.steps[s.steps.size() - kDeadRecords]) return std::nullopt;
    return step;
  };
  const std::vector<Series> ratios = site_series(run, "step.ratio");
  const Onset nothing = earliest(ratios, [&](const Series& s) { return dead_since(s, true); });
  std::vector<Series> matrices = parameter_series(run, "grad_norm");
  std::erase_if(matrices, [](const Series& s) {
    return !sublayer_place(s.at.substr(0, s.at.find('.', s.at.find('.', s.at.find('.') + 1) + 1))) ||
           s.at.find(".experts.") != std::string::npos || !s.at.ends_with(".weight");
  });
  const Onset untaught = earliest(matrices, [&](const Series& s) { return dead_since(s, false); });
  if (nothing.series) {
    Finding f = finding(run, Signature::dead_branch, nothing, "step.ratio");
    f.words = fmt::format("the branch of {} adds nothing: its RMS is {:.2g} of the stream's.", f.at,
                          nothing.series->values.back());
    found.push_back(std::move(f));
  } else if (untaught.series) {
    Finding f = finding(run, Signature::dead_branch, untaught, "grad_norm");
    f.words = fmt::format("no gradient reaches {} any more: what lies behind it passes none.", f.at);
    found.push_back(std::move(f));
  }
}

void find_massive(const RunRecords& run, const LossCourse&, Findings& found) {
  for (const char* quantity : {"stream", "output"}) {
    const std::string max = fmt::format("{}.max", quantity);
    const std::vector<Series> largest = site_series(run, max),
                              medians = site_series(run, fmt::format("{}.median", quantity));
    const Onset onset = earliest(largest, [&](const Series& s) -> std::optional<int64_t> {
      const Series* m = find_series(medians, s.at);
      if (!m || m->values.size() != s.values.size()) return std::nullopt;
      for (size_t i = 0; i < s.values.size(); ++i) {
        if (s.values[i] > kMassive && s.values[i] >= kMassiveOverMedian * m->values[i]) return s.steps[i];
      }
      return std::nullopt;
    });
    if (!onset.series) continue;
    Finding f = finding(run, Signature::massive_activations, onset, max);
    const Series& m = *find_series(medians, f.at);
    f.evidence.push_back(evidence_at(m, fmt::format("{}.median", quantity), onset.step));
    f.words = fmt::format(
        "the stream at {} holds elements of {:.3g} where the median is {:.2g}: a few of its dims carry "
        "nearly all of it.",
        f.at, evidence_at(*onset.series, max, onset.step).value, evidence_at(m, "", onset.step).value);
    found.push_back(std::move(f));
    return;
  }
}

void find_overflow(const RunRecords& run, const LossCourse&, Findings& found) {
  Finding f{.signature = Signature::precision_overflow};
  f.remedies = remedies_for(run, f.signature);
  for (const ProbeLine& line : run.probe) {
    for (const auto& site : line.sites) {
      for (const char* q : {"stream", "branch", "output", "logits"}) {
        const auto count = site.measures.find(fmt::format("{}.not_finite", q));
        if (count == site.measures.end() || count->second == 0) continue;
        f.began = line.step;
        f.at = site.at;
        f.evidence.push_back({count->first, site.at, line.step, count->second});
        f.words =
            fmt::format("{:.0f} elements of the {} at {} are not finite at step {}, the first in the pass.",
                        count->second, q, site.at, line.step);
        found.push_back(std::move(f));
        return;
      }
    }
  }
  const auto bad = std::find_if(run.steps.begin(), run.steps.end(), [](const StepLine& s) {
    return !std::isfinite(s.loss) || !std::isfinite(s.gradient_norm);
  });
  if (bad != run.steps.end()) {
    const bool loss = !std::isfinite(bad->loss);
    f.began = bad->step;
    f.evidence.push_back({loss ? "loss" : "grad_norm", "", bad->step, std::nan("")});
    f.words = fmt::format("the {} is not finite at step {}; no sampled step shows where.",
                          loss ? "loss" : "gradient", bad->step);
    found.push_back(std::move(f));
    return;
  }
  const std::vector<Series> largest = site_series(run, "stream.max");
  const Onset onset =
      earliest(largest, [](const Series& s) { return s.since([](double x) { return x > kHalfMax; }); });
  if (!onset.series) return;
  f = finding(run, Signature::precision_overflow, onset, "stream.max");
  f.words = fmt::format("the stream at {} reaches {:.3g}, beyond what half precision holds.", f.at,
                        onset.series->values.back());
  found.push_back(std::move(f));
}

}  // namespace plumb
