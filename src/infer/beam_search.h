// Beam search over one text, without a model: what the beams are after each step, from the log-probabilities
// of what may come next. As transformers defines it: Vijayakumar 2016 (1610.02424) for groups, Wu 2016
// (1609.08144) for the length penalty, there as a plain power.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "plumb/generator.h"

namespace plumb {

// A text that has ended.
struct Hypothesis {
  std::vector<int32_t> ids;  // the new tokens, one that ended it included
  double score = 0;          // sum of log-probabilities / their number ^ length_penalty
  EndReason end = EndReason::eos;
};

// One group of beams.
class BeamGroup {
 public:
  struct Options {
    int64_t beams = 1;
    int64_t ends = 1;  // how many tokens end a text
    int64_t most = 1;  // new tokens
    double length_penalty = 1;
    EarlyStopping early_stopping = EarlyStopping::no;
  };
  struct Beam {
    std::vector<int32_t> ids;  // new tokens
    double score = 0;          // sum of their log-probabilities
    size_t from = 0;           // what it was before the last step
  };
  // Whether `ids` with `next` behind them are a whole text, and why.
  using Ends = std::function<std::optional<EndReason>(const std::vector<int32_t>& ids, int32_t next)>;

  explicit BeamGroup(const Options& options) : o_(options), running_(1) {}

  // One row (V) for each running beam: log-probabilities with all rules applied, -inf where a token is ruled
  // out.
  void step(std::span<const std::span<const float>> rows, const Ends& ends);

  // Descending by score. At first one, without tokens; none where the group is done.
  const std::vector<Beam>& running() const { return running_; }
  // Descending by score, at most as many as beams.
  const std::vector<Hypothesis>& finished() const { return finished_; }

 private:
  struct Candidate {
    double score;
    size_t beam;
    int32_t id;
  };
  std::vector<Candidate> best_candidates(std::span<const std::span<const float>> rows) const;
  void finish(const Candidate& candidate, EndReason end);
  bool is_done() const;

  Options o_;
  std::vector<Beam> running_;
  std::vector<Hypothesis> finished_;
};

}  // namespace plumb
