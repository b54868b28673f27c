// What the loss alone tells: its course, and spikes that one batch made.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lab/diagnose_rules.h"

namespace plumb {
namespace {

constexpr double kRise = 0.3;         // nats above the best that are a divergence
constexpr double kShare = 0.1;        // or this share of the best
constexpr int64_t kFewestSteps = 40;  // below, a plateau cannot be told from a slow start
constexpr double kFall = 0.01;        // share of the first loss that the second half has to gain at least
constexpr double kHigh = 0.6;         // where the last loss is above this share of the first
constexpr size_t kBefore = 20, kAfter = 5;  // steps around a data spike
constexpr double kSpike = 1, kSpikeZ = 8;
constexpr double kBack = 0.25;  // of a spike, that its neighbours may be above the level

struct Block {
  int64_t first = 0;  // step
  double median = 0;
};

std::vector<Block> blocks_of(const RunRecords& run) {
  const size_t n = run.steps.size(), each = std::clamp<size_t>(n / 20, 1, 25);
  std::vector<Block> blocks;
  for (size_t i = 0; i < n; i += each) {
    std::vector<double> losses;
    for (size_t k = i; k < std::min(n, i + each); ++k) losses.push_back(run.steps[k].loss);
    blocks.push_back({run.steps[i].step, median_of(losses)});
  }
  return blocks;
}

// Of the blocks' medians: the usual step from one to the next.
double noise_of(const std::vector<Block>& blocks) {
  std::vector<double> steps;
  for (size_t i = 1; i < blocks.size(); ++i)
    steps.push_back(std::abs(blocks[i].median - blocks[i - 1].median));
  const double m = median_of(steps);
  return std::isfinite(m) ? m : 0;
}

std::optional<int64_t> first_not_finite(const RunRecords& run) {
  for (const StepLine& s : run.steps) {
    if (!std::isfinite(s.loss) || !std::isfinite(s.gradient_norm)) return s.step;
  }
  return std::nullopt;
}

double mean_of(const std::vector<Block>& blocks, size_t begin, size_t end) {
  double sum = 0;
  for (size_t i = begin; i < end; ++i) sum += blocks[i].median / static_cast<double>(end - begin);
  return sum;
}

void judge_plateau(const RunRecords& run, const std::vector<Block>& blocks, LossCourse& c) {
  const size_t n = blocks.size();
  if (static_cast<int64_t>(run.steps.size()) < kFewestSteps || n < 8 || !(c.last > kHigh * c.first)) return;
  const double middle = mean_of(blocks, n / 2, n / 2 + n / 4), end = mean_of(blocks, n - n / 4, n);
  if (middle - end >= kFall * c.first) return;
  c.course = Course::plateau;
  for (size_t i = n; i-- > 0 && blocks[i].median < end + 0.03 * c.first;) c.onset = blocks[i].first;
}

}  // namespace

double median_of(std::vector<double> values) {
  std::erase_if(values, [](double x) { return !std::isfinite(x); });
  if (values.empty()) return std::nan("");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

LossCourse loss_course(const RunRecords& run) {
  std::vector<Block> blocks = blocks_of(run);
  std::erase_if(blocks, [](const Block& b) { return !std::isfinite(b.median); });
  LossCourse c;
  if (!blocks.empty()) {
    c.first = blocks.front().median;
    c.last = blocks.back().median;
    c.best = std::min_element(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
               return a.median < b.median;
             })->median;
  }
  if (const auto step = first_not_finite(run)) {
    c.course = Course::diverged;
    c.onset = step;
    return c;
  }
  const double rise = std::max({kRise, kShare * c.best, 4 * noise_of(blocks)});
  if (c.last > c.best + rise) {
    c.course = Course::diverged;
    for (size_t i = blocks.size(); i-- > 0 && blocks[i].median > c.best + rise / 2;)
      c.onset = blocks[i].first;
    return c;
  }
  judge_plateau(run, blocks, c);
  return c;
}

// A step far above those before it, with both neighbours at the level and its successors back: the weights
// did not change, the batch did. Of a model that has diverged no batch is to blame.
void find_data_spike(const RunRecords& run, const LossCourse& course, Findings& found) {
  Finding f{.signature = Signature::data_spike};
  const auto& steps = run.steps;
  int64_t count = 0;
  for (size_t i = 5; i + 1 < steps.size(); ++i) {
    if (course.course == Course::diverged && steps[i].step >= course.onset) break;
    const size_t begin = i > kBefore ? i - kBefore : 0;
    std::vector<double> before, deviations, after;
    for (size_t k = begin; k < i; ++k) before.push_back(steps[k].loss);
    const double level = median_of(before);
    for (const double x : before) deviations.push_back(std::abs(x - level));
    const double jump = steps[i].loss - level, spread = 1.4826 * median_of(deviations);
    if (!(jump > std::max(kSpike, kSpikeZ * spread))) continue;
    for (size_t k = i + 1; k < std::min(steps.size(), i + 1 + kAfter); ++k) after.push_back(steps[k].loss);
    const double back = level + kBack * jump;
    if (!(median_of(after) < back && steps[i - 1].loss < back && steps[i + 1].loss < back)) continue;
    if (++count > 3) continue;
    if (f.evidence.empty()) f.began = steps[i].step;
    f.evidence.push_back({"loss", "", steps[i - 1].step, steps[i - 1].loss});
    f.evidence.push_back({"loss", "", steps[i].step, steps[i].loss});
    f.evidence.push_back({"loss", "", steps[i + 1].step, steps[i + 1].loss});
  }
  if (count == 0) return;
  f.words = fmt::format(
      "{} whose loss is far above its neighbours' and gone a step later: the batch was unlike the others, "
      "the "
      "model was not.",
      count == 1 ? std::string("one step") : fmt::format("{} steps", count));
  f.remedies = remedies_for(run, f.signature);
  found.push_back(std::move(f));
}

}  // namespace plumb
