#include "infer/writing.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "infer/cutoffs.h"
#include "infer/decoding.h"
#include "infer/logits.h"
#include "infer/token_rules.h"
#include "plumb/error.h"

namespace plumb {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One text as it grows.
struct Sequence {
  std::vector<int32_t> history;  // prompt and new tokens
  size_t prompt = 0;             // tokens of the prompt
  int64_t most = 0;              // new tokens that may come
  TextStream text;
  Generated result;
  double bits = 0;  // Mirostat's bound on the next token's

  int64_t written() const { return static_cast<int64_t>(history.size() - prompt); }
};

// Of one token and of the `count` likeliest.
TokenProbability probability_of(std::span<const float> logits, int32_t id, int64_t count) {
  const double all = log_sum(logits);
  TokenProbability p{logits[id] - all, {}};
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto last = ids.begin() + std::min<int64_t>(count, static_cast<int64_t>(ids.size()));
  std::partial_sort(ids.begin(), last, ids.end(), [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  for (auto i = ids.begin(); i != last; ++i) p.likeliest.emplace_back(*i, logits[*i] - all);
  return p;
}

class Writer {
 public:
  explicit Writer(const Writing& w)
      : w_(w), rules_(w.options, w.defaults, w.tokenizer), vocabulary_(w.vocabulary()) {}

  std::vector<Generated> run();

 private:
  int32_t choose(std::span<float> logits, Sequence& s, uint64_t row) const;
  int32_t draw(std::span<float> logits, Sequence& s, uint64_t row) const;
  bool append(Sequence& s, int32_t id) const;
  void finish(Sequence& s, double decode_seconds) const;

  const Writing& w_;
  TokenRules rules_;
  int64_t vocabulary_;
};

int32_t Writer::choose(std::span<float> logits, Sequence& s, uint64_t row) const {
  const GenerateOptions& o = w_.options;
  check_finite(logits);
  std::vector<float> plain;  // what penalties have not touched
  if (o.log_probabilities > 0) plain.assign(logits.begin(), logits.end());
  rules_.apply(
      logits,
      {.history = s.history, .prompt = s.prompt, .most = s.most, .source = w_.source(row - o.first_prompt)});
  const int32_t id = o.temperature == 0 ? greedy(logits) : draw(logits, s, row);
  if (o.log_probabilities > 0)
    s.result.probabilities.push_back(probability_of(plain, id, o.log_probabilities));
  return id;
}

int32_t Writer::draw(std::span<float> logits, Sequence& s, uint64_t row) const {
  const GenerateOptions& o = w_.options;
  const RandomKey key{o.seed, random_stream(s.history.size(), row)};
  rules_.cut(logits, random_uniform(key, 1));
  if (o.mirostat_tau > 0) keep_unsurprising(logits, s.bits);
  const int32_t id = sample(logits, random_uniform(key, 0));
  if (o.mirostat_tau > 0)
    s.bits -= o.mirostat_eta * ((log_sum(logits) - logits[id]) / std::log(2.0) - o.mirostat_tau);
  return id;
}

// Whether the text goes on.
bool Writer::append(Sequence& s, int32_t id) const {
  s.history.push_back(id);
  s.text.add(id);
  if (s.text.stopped()) {
    s.result.end = EndReason::stop;
  } else if (rules_.is_end(id) && !w_.options.ignore_eos) {
    s.result.end = EndReason::eos;
  } else {
    if (s.written() < s.most) return true;
    s.result.end = limit(w_, s.prompt).end;
  }
  return false;
}

void Writer::finish(Sequence& s, double decode_seconds) const {
  s.text.finish();
  if (s.text.stopped()) s.result.end = EndReason::stop;
  s.result.ids.assign(s.history.begin() + static_cast<int64_t>(s.prompt), s.history.end());
  s.result.text = s.text.text();
  s.result.decode_seconds = decode_seconds;
  // The first token came with the prompt.
  if (s.written() > 1) s.result.tokens_per_second = static_cast<double>(s.written() - 1) / decode_seconds;
}

std::vector<Generated> Writer::run() {
  std::vector<Sequence> all;
  int64_t longest = 0, most = 0;
  for (size_t i = 0; i < w_.prompts.size(); ++i) {
    const auto& prompt = w_.prompts[i];
    const int64_t new_tokens = limit(w_, prompt.size()).most;
    all.push_back({prompt,
                   prompt.size(),
                   new_tokens,
                   TextStream(w_.tokenizer, w_.options.stop, w_.on_text),
                   {},
                   2 * w_.options.mirostat_tau});
    all.back().result.prompt_tokens =
        static_cast<int64_t>(w_.sources.empty() ? prompt.size() : w_.sources[i].size());
    longest = std::max(longest, static_cast<int64_t>(prompt.size()));
    most = std::max(most, new_tokens);
  }
  const auto start = Clock::now();
  Decoding decoding(w_.model, w_.prompts, w_.sources,
                    {.slots = longest + most, .chunk = w_.options.prefill_chunk, .observer = w_.observer});
  const double prefill_seconds = seconds_since(start);
  const auto decode_start = Clock::now();

  std::vector<int64_t> rows(all.size());  // the sequence that each row of the batch writes
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
  while (!rows.empty()) {
    std::vector<int32_t> ids;
    std::vector<int64_t> kept;
    for (size_t b = 0; b < rows.size(); ++b) {
      Sequence& s = all[rows[b]];
      const uint64_t number = w_.options.first_prompt + static_cast<uint64_t>(rows[b]);
      const int32_t id = choose(decoding.logits(static_cast<int64_t>(b)).first(vocabulary_), s, number);
      if (append(s, id)) {
        ids.push_back(id);
        kept.push_back(static_cast<int64_t>(b));
      } else {
        finish(s, seconds_since(decode_start));
      }
    }
    if (kept.size() < rows.size() && !kept.empty()) decoding.keep(kept);
    for (size_t b = 0; b < kept.size(); ++b) rows[b] = rows[kept[b]];
    rows.resize(kept.size());
    if (!rows.empty()) decoding.step(ids);
  }
  std::vector<Generated> results;
  for (Sequence& s : all) {
    s.result.prefill_seconds = prefill_seconds;
    results.push_back(std::move(s.result));
  }
  return results;
}

}  // namespace

Limit limit(const Writing& w, size_t prompt) {
  const int64_t longest = w.model.config().max_length, room = longest - static_cast<int64_t>(prompt);
  if (room <= 0) {
    throw Error(ErrorKind::input,
                fmt::format("a prompt of {} tokens leaves no room to write: the model was made for {} "
                            "in all (max_length)",
                            prompt, longest));
  }
  if (w.options.max_new_tokens <= room) return {w.options.max_new_tokens, EndReason::max_new_tokens};
  return {room, EndReason::max_length};
}

std::vector<Generated> write(const Writing& writing) {
  if (writing.prompts.empty()) return {};
  return Writer(writing).run();
}

}  // namespace plumb
