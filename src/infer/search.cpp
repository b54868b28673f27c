// Beam search over the texts of a batch: what beam_search.h says of one text, with a model.
#include <algorithm>
#include <chrono>
#include <map>

#include "infer/beam_search.h"
#include "infer/decoding.h"
#include "infer/logits.h"
#include "infer/token_rules.h"
#include "infer/writing.h"
#include "plumb/error.h"

namespace plumb {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One prompt with its groups of beams.
struct Text {
  size_t number;  // of the prompt
  int64_t most;   // new tokens
  std::vector<BeamGroup> groups;
  std::vector<std::vector<size_t>> rows;  // of the batch, by group and beam
};

class Search {
 public:
  explicit Search(const Writing& w)
      : w_(w), rules_(w.options, w.defaults, w.tokenizer), vocabulary_(w.vocabulary()) {}

  std::vector<Generated> run();

 private:
  std::vector<float> row_of(const Decoding& decoding, const Text& text, const BeamGroup::Beam& beam,
                            size_t row) const;
  void step(const Decoding& decoding, Text& text) const;
  std::optional<EndReason> end_of(const std::vector<int32_t>& ids, int32_t next) const;
  Generated result(const Text& text, const Hypothesis& h) const;
  Generated best(const Text& text) const;

  const Writing& w_;
  TokenRules rules_;
  int64_t vocabulary_;
};

// Log-probabilities of what comes behind one beam, with the rules applied.
std::vector<float> Search::row_of(const Decoding& decoding, const Text& text, const BeamGroup::Beam& beam,
                                  size_t row) const {
  const std::span<float> logits = decoding.logits(static_cast<int64_t>(row)).first(vocabulary_);
  check_finite(logits);
  std::vector<float> values(logits.begin(), logits.end());
  log_softmax(values);
  std::vector<int32_t> history = w_.prompts[text.number];
  const size_t prompt = history.size();
  history.insert(history.end(), beam.ids.begin(), beam.ids.end());
  rules_.apply(values,
               {.history = history, .prompt = prompt, .most = text.most, .source = w_.source(text.number)});
  return values;
}

// A token that ends a text, or one that completes a stop string.
std::optional<EndReason> Search::end_of(const std::vector<int32_t>& ids, int32_t next) const {
  if (rules_.is_end(next) && !w_.options.ignore_eos) return EndReason::eos;
  if (w_.options.stop.empty()) return std::nullopt;
  TextStream stream(w_.tokenizer, w_.options.stop, {});
  for (const int32_t id : ids) stream.add(id);
  stream.add(next);
  return stream.stopped() ? std::optional(EndReason::stop) : std::nullopt;
}

void Search::step(const Decoding& decoding, Text& text) const {
  std::map<int32_t, int64_t> chosen;  // by how many beams of earlier groups, just now
  for (size_t g = 0; g < text.groups.size(); ++g) {
    BeamGroup& group = text.groups[g];
    if (group.running().empty()) continue;
    std::vector<std::vector<float>> values;
    for (size_t b = 0; b < group.running().size(); ++b) {
      values.push_back(row_of(decoding, text, group.running()[b], text.rows[g][b]));
      for (const auto& [id, count] : chosen) {
        values.back()[id] -= static_cast<float>(w_.options.diversity_penalty * static_cast<double>(count));
      }
    }
    const std::vector<std::span<const float>> rows(values.begin(), values.end());
    group.step(rows, [&](const std::vector<int32_t>& ids, int32_t next) { return end_of(ids, next); });
    for (const BeamGroup::Beam& beam : group.running()) ++chosen[beam.ids.back()];
  }
}

Generated Search::result(const Text& text, const Hypothesis& h) const {
  Generated g;
  g.ids = h.ids;
  g.score = h.score;
  g.end = h.end == EndReason::max_new_tokens ? limit(w_, w_.prompts[text.number].size()).end : h.end;
  TextStream stream(w_.tokenizer, w_.options.stop, {});
  for (const int32_t id : h.ids) stream.add(id);
  stream.finish();
  g.text = stream.text();
  g.prompt_tokens = static_cast<int64_t>((w_.sources.empty() ? w_.prompts : w_.sources)[text.number].size());
  return g;
}

// The best of all groups, with the next ones.
Generated Search::best(const Text& text) const {
  std::vector<Hypothesis> all;
  for (const BeamGroup& group : text.groups) {
    all.insert(all.end(), group.finished().begin(), group.finished().end());
  }
  if (all.empty()) throw Error(ErrorKind::input, "every token is ruled out as the next one, in every beam");
  std::stable_sort(all.begin(), all.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  Generated first = result(text, all[0]);
  for (size_t i = 1; i < all.size() && static_cast<int64_t>(i) < w_.options.results; ++i) {
    first.others.push_back(result(text, all[i]));
  }
  return first;
}

std::vector<Generated> Search::run() {
  const GenerateOptions& o = w_.options;
  std::vector<Text> texts;
  int64_t longest = 0, most = 0;
  for (size_t i = 0; i < w_.prompts.size(); ++i) {
    const BeamGroup::Options options{.beams = o.beams / o.beam_groups,
                                     .ends = rules_.ends(),
                                     .most = limit(w_, w_.prompts[i].size()).most,
                                     .length_penalty = o.length_penalty,
                                     .early_stopping = o.early_stopping};
    texts.push_back({i, options.most, {}, {}});
    for (int64_t g = 0; g < o.beam_groups; ++g) {
      texts.back().groups.emplace_back(options);
      texts.back().rows.push_back({i});
    }
    longest = std::max(longest, static_cast<int64_t>(w_.prompts[i].size()));
    most = std::max(most, options.most);
  }
  const auto start = Clock::now();
  Decoding decoding(w_.model, w_.prompts, w_.sources,
                    {.slots = longest + most, .chunk = o.prefill_chunk, .observer = w_.observer});
  const double prefill_seconds = seconds_since(start);
  const auto decode_start = Clock::now();

  while (true) {
    std::vector<int64_t> from;
    std::vector<int32_t> ids;
    for (Text& text : texts) {
      const auto before = text.rows;
      step(decoding, text);
      for (size_t g = 0; g < text.groups.size(); ++g) {
        text.rows[g].clear();
        for (const BeamGroup::Beam& beam : text.groups[g].running()) {
          text.rows[g].push_back(from.size());
          from.push_back(static_cast<int64_t>(before[g][beam.from]));
          ids.push_back(beam.ids.back());
        }
      }
    }
    if (ids.empty()) break;
    decoding.keep(from);
    decoding.step(ids);
  }
  const double decode_seconds = seconds_since(decode_start);
  std::vector<Generated> results;
  for (const Text& text : texts) {
    results.push_back(best(text));
    Generated& g = results.back();
    g.prefill_seconds = prefill_seconds;
    g.decode_seconds = decode_seconds;
    g.tokens_per_second = static_cast<double>(g.ids.size()) / decode_seconds;
  }
  if (w_.on_text && results.size() == 1) w_.on_text(results[0].text);
  return results;
}

}  // namespace

std::vector<Generated> search(const Writing& writing) {
  if (writing.prompts.empty()) return {};
  return Search(writing).run();
}

}  // namespace plumb
