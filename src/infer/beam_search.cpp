#include "infer/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace plumb {

// Enough that as many as there are beams go on, however many end: the likeliest of all beams together, of
// equals those of the better beam and with the lower id.
std::vector<BeamGroup::Candidate> BeamGroup::best_candidates(
    std::span<const std::span<const float>> rows) const {
  const size_t most = static_cast<size_t>(std::max<int64_t>(2, 1 + o_.ends) * o_.beams);
  const auto better = [](const Candidate& a, const Candidate& b) {
    if (a.score != b.score) return a.score > b.score;
    return a.beam != b.beam ? a.beam < b.beam : a.id < b.id;
  };
  std::vector<Candidate> best;  // a heap with the worst on top
  best.reserve(most + 1);
  for (size_t beam = 0; beam < rows.size(); ++beam) {
    for (size_t id = 0; id < rows[beam].size(); ++id) {
      const double score = running_[beam].score + rows[beam][id];
      if (score == -std::numeric_limits<double>::infinity()) continue;
      const Candidate candidate{score, beam, static_cast<int32_t>(id)};
      if (best.size() == most && !better(candidate, best.front())) continue;
      best.push_back(candidate);
      std::push_heap(best.begin(), best.end(), better);
      if (best.size() <= most) continue;
      std::pop_heap(best.begin(), best.end(), better);
      best.pop_back();
    }
  }
  std::sort(best.begin(), best.end(), better);
  return best;
}

void BeamGroup::finish(const Candidate& candidate, EndReason end) {
  Hypothesis h{running_[candidate.beam].ids, 0, end};
  h.ids.push_back(candidate.id);
  h.score = candidate.score / std::pow(static_cast<double>(h.ids.size()), o_.length_penalty);
  const auto place = std::find_if(finished_.begin(), finished_.end(),
                                  [&](const Hypothesis& other) { return other.score < h.score; });
  finished_.insert(place, std::move(h));
}

void BeamGroup::step(std::span<const std::span<const float>> rows, const Ends& ends) {
  PLUMB_CHECK(rows.size() == running_.size(), "{} rows for {} beams", rows.size(), running_.size());
  const std::vector<Candidate> candidates = best_candidates(rows);
  std::vector<Beam> next;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& c = candidates[i];
    const Beam& beam = running_[c.beam];
    std::optional<EndReason> end = ends(beam.ids, c.id);
    if (!end && static_cast<int64_t>(beam.ids.size()) + 1 >= o_.most) end = EndReason::max_new_tokens;
    if (end) {
      // Of the rest, which stand by so that enough beams go on, none ends a text.
      if (static_cast<int64_t>(i) < o_.beams) finish(c, *end);
    } else if (static_cast<int64_t>(next.size()) < o_.beams) {
      next.push_back({beam.ids, c.score, c.beam});
      next.back().ids.push_back(c.id);
    }
  }
  if (static_cast<int64_t>(finished_.size()) > o_.beams) finished_.resize(o_.beams);
  running_ = std::move(next);
  if (is_done()) running_.clear();
}

// Whether no running beam can be expected to do better than the worst of enough finished texts.
bool BeamGroup::is_done() const {
  if (running_.empty()) return true;
  if (static_cast<int64_t>(finished_.size()) < o_.beams) return false;
  if (o_.early_stopping == EarlyStopping::yes) return true;
  const bool longest = o_.early_stopping == EarlyStopping::never && o_.length_penalty > 0;
  const auto length = static_cast<double>(longest ? o_.most : static_cast<int64_t>(running_[0].ids.size()));
  return running_[0].score / std::pow(length, o_.length_penalty) <= finished_.back().score;
}

}  // namespace plumb
