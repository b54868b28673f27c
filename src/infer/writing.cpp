#include "infer/writing.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "infer/decoding.h"
#include "infer/logits.h"
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

  int64_t written() const { return static_cast<int64_t>(history.size() - prompt); }
};

struct Limit {
  int64_t most;
  EndReason end;  // why no more
};

class Writer {
 public:
  explicit Writer(const Writing& w) : w_(w) {
    vocabulary_ = std::min<int64_t>(w.model.config().vocab_size, w.tokenizer.vocab_size());
    for (const auto& word : w.defaults.bad_words) {
      if (word.size() != 1 || !is_end(word[0])) bad_words_.push_back(word);
    }
  }

  std::vector<Generated> run();

 private:
  bool is_end(int64_t id) const {
    const auto& ends = w_.defaults.eos_ids;
    return std::find(ends.begin(), ends.end(), id) != ends.end();
  }
  Limit limit(size_t prompt) const;
  int32_t choose(std::span<float> logits, const Sequence& s, uint64_t row) const;
  bool append(Sequence& s, int32_t id) const;
  void finish(Sequence& s, double decode_seconds) const;

  const Writing& w_;
  int64_t vocabulary_ = 0;
  std::vector<std::vector<int64_t>> bad_words_;
};

Limit Writer::limit(size_t prompt) const {
  const int64_t room = w_.model.config().max_length - static_cast<int64_t>(prompt);
  if (room <= 0) {
    throw Error(ErrorKind::input,
                fmt::format("a prompt of {} tokens leaves no room to write: the model was made for {} "
                            "in all (max_length)",
                            prompt, w_.model.config().max_length));
  }
  if (w_.options.max_new_tokens <= room) return {w_.options.max_new_tokens, EndReason::max_new_tokens};
  return {room, EndReason::max_length};
}

int32_t Writer::choose(std::span<float> logits, const Sequence& s, uint64_t row) const {
  const GenerateOptions& o = w_.options;
  check_finite(logits);
  penalize_repetition(logits, s.history, o.repetition_penalty);
  ban_words(logits, s.history, bad_words_);
  if (s.written() == 0 && w_.defaults.forced_bos_id >= 0) force_token(logits, w_.defaults.forced_bos_id);
  if (s.written() == s.most - 1 && w_.defaults.forced_eos_id >= 0)
    force_token(logits, w_.defaults.forced_eos_id);
  if (o.temperature == 0) return greedy(logits);
  scale_temperature(logits, o.temperature);
  keep_top_k(logits, o.top_k);
  keep_top_p(logits, o.top_p);
  keep_min_p(logits, o.min_p);
  return sample(logits, random_uniform({o.seed, random_stream(s.history.size(), row)}, 0));
}

// Whether the text goes on.
bool Writer::append(Sequence& s, int32_t id) const {
  s.history.push_back(id);
  s.text.add(id);
  if (s.text.stopped()) {
    s.result.end = EndReason::stop;
  } else if (is_end(id) && !w_.options.ignore_eos) {
    s.result.end = EndReason::eos;
  } else {
    if (s.written() < s.most) return true;
    s.result.end = limit(s.prompt).end;
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
    const int64_t new_tokens = limit(prompt.size()).most;
    all.push_back(
        {prompt, prompt.size(), new_tokens, TextStream(w_.tokenizer, w_.options.stop, w_.on_text), {}});
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

std::vector<Generated> write(const Writing& writing) {
  if (writing.prompts.empty()) return {};
  return Writer(writing).run();
}

}  // namespace plumb
