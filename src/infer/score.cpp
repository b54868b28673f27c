#include "plumb/score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "model/batch_pass.h"
#include "plumb/error.h"
#include "text/prompt.h"

namespace plumb {
namespace {

// A sequence whose ids from `first` (1 or more) on are scored, given all before them.
struct Scored {
  std::span<const int32_t> ids;
  int64_t first = 1;
};

// Each row as inputs and targets one later.
Batch batch_of(std::span<const Scored> rows) {
  Batch b{.rows = static_cast<int64_t>(rows.size())};
  for (const Scored& r : rows) b.length = std::max<int64_t>(b.length, static_cast<int64_t>(r.ids.size()) - 1);
  b.ids.assign(b.rows * b.length, 0);
  b.mask.assign(b.rows * b.length, 0);
  b.targets.assign(b.rows * b.length, kIgnoreTarget);
  for (int64_t row = 0; row < b.rows; ++row) {
    const Scored& r = rows[row];
    const int64_t at = row * b.length, inputs = static_cast<int64_t>(r.ids.size()) - 1;
    std::copy_n(r.ids.begin(), inputs, b.ids.begin() + at);
    std::fill_n(b.mask.begin() + at, inputs, 1);
    std::copy(r.ids.begin() + r.first, r.ids.end(), b.targets.begin() + at + r.first - 1);
    b.target_count += inputs + 1 - r.first;
  }
  return b;
}

void check_model(const Model& model, const Tokenizer& tokenizer) {
  const ModelConfig& c = model.config();
  if (c.has_encoder() || !c.has_decoder() || c.head != Head::language_model)
    throw Error(ErrorKind::unsupported, "scoring takes a decoder with a language-model head");
  if (tokenizer.vocab_size() > c.vocab_size) {
    throw Error(ErrorKind::input, fmt::format("the tokenizer has {} tokens, more than the {} of the model",
                                              tokenizer.vocab_size(), c.vocab_size));
  }
}

ScoreOptions resolved(ScoreOptions o, int64_t longest) {
  constexpr int64_t kUsual = 1024;
  if (o.length == 0) o.length = std::min(longest, kUsual);
  if (o.stride == 0) o.stride = o.length / 2;
  const auto require = [](const char* name, int64_t got, int64_t least, int64_t most) {
    if (got >= least && got <= most) return;
    throw Error(ErrorKind::usage, fmt::format("{} is {}, expected {} to {}", name, got, least, most));
  };
  require("length", o.length, 2, longest);
  require("stride", o.stride, 1, o.length);
  require("batch", o.batch, 1, 1 << 16);
  return o;
}

// A text's ids; what no text is before gets the token that texts begin with.
std::vector<int32_t> ids_of(const Model& model, const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids = prompt_ids(tokenizer, text);
  if (!ids.empty()) return ids;
  const ModelConfig& c = model.config();
  const int64_t bos = c.bos_id >= 0 ? c.bos_id : c.eos_ids.empty() ? -1 : c.eos_ids[0];
  if (bos < 0)
    throw Error(ErrorKind::input, "the prompt is empty, and the model has no token that a text starts from");
  return {static_cast<int32_t>(bos)};
}

LossSums target_sums(const Transformer& model, const Tensor& hidden, const Batch& b, int64_t row) {
  const auto targets = std::span(b.targets).subspan(row * b.length, b.length);
  const auto first =
      std::find_if(targets.begin(), targets.end(), [](int32_t t) { return t != kIgnoreTarget; });
  const auto end = std::find(first, targets.end(), kIgnoreTarget);
  Context context;
  const Tensor rows = hidden.reshape({b.rows * b.length, hidden.size(-1)})
                          .rows_view(row * b.length + (first - targets.begin()), end - first);
  const Tensor logits = model.logits(context, rows);
  return cross_entropy(
      {.rows = logits.rows(), .vocabulary = logits.width(), .logits = logits.f32(), .targets = &*first});
}

}  // namespace

double TextScore::loss() const {
  return nll / static_cast<double>(tokens);
}
double TextScore::perplexity() const {
  return std::exp(loss());
}

TextScore score_text(const Model& model, const Tokenizer& tokenizer, std::string_view text,
                     const ScoreOptions& options) {
  check_model(model, tokenizer);
  const ScoreOptions o = resolved(options, model.config().max_length);
  const std::vector<int32_t> ids = ids_of(model, tokenizer, text);
  const auto count = static_cast<int64_t>(ids.size());
  if (count < 2)
    throw Error(ErrorKind::input, "the text has less than two tokens: there is nothing to score");
  std::vector<Scored> windows;
  windows.reserve(count / o.stride + 1);
  for (int64_t begin = 0, scored = 1; scored < count; begin += o.stride) {
    const int64_t end = std::min(begin + o.length, count), first = std::max<int64_t>(scored - begin, 1);
    if (begin + first < end) windows.push_back({std::span(ids).subspan(begin, end - begin), first});
    scored = end;
  }
  TextScore score{.length = o.length, .stride = o.stride};
  const auto all = std::span<const Scored>(windows);
  for (size_t at = 0; at < all.size(); at += o.batch) {
    const Batch b = batch_of(all.subspan(at, std::min<size_t>(o.batch, all.size() - at)));
    Context context;
    const LossSums sums = batch_loss(context, model.transformer(), b, {});
    score.nll += sums.nll;
    score.tokens += sums.count;
  }
  return score;
}

std::vector<ChoiceScore> score_choices(const Model& model, const Tokenizer& tokenizer,
                                       std::string_view prompt, const std::vector<std::string>& choices,
                                       const ScoreOptions& options) {
  check_model(model, tokenizer);
  const int64_t longest = model.config().max_length;
  const ScoreOptions o = resolved(options, longest);
  const std::vector<int32_t> begin = ids_of(model, tokenizer, prompt);
  const bool bare = prompt_ids(tokenizer, prompt).empty();  // then texts begin with what `begin` is
  std::vector<std::vector<int32_t>> texts;
  std::vector<Scored> rows;
  texts.reserve(choices.size());
  rows.reserve(choices.size());
  for (const std::string& choice : choices) {
    std::vector<int32_t> ids = prompt_ids(tokenizer, std::string(prompt) + choice);
    if (bare) ids.insert(ids.begin(), begin[0]);
    texts.push_back(std::move(ids));
    const auto& whole = texts.back();
    const int64_t shared =
        std::mismatch(begin.begin(), begin.end(), whole.begin(), whole.end()).first - begin.begin();
    const int64_t first = std::max<int64_t>(shared, 1), count = static_cast<int64_t>(whole.size());
    if (first >= count)
      throw Error(ErrorKind::input, fmt::format("the choice \"{}\" adds no token to the prompt", choice));
    if (count - 1 > longest) {
      throw Error(ErrorKind::input,
                  fmt::format("prompt and choice are {} tokens, and the model's longest sequence is {}",
                              count, longest));
    }
    rows.push_back({whole, first});
  }
  std::vector<ChoiceScore> scores;
  scores.reserve(rows.size());
  const auto all = std::span<const Scored>(rows);
  for (size_t at = 0; at < all.size(); at += o.batch) {
    const Batch b = batch_of(all.subspan(at, std::min<size_t>(o.batch, all.size() - at)));
    Context context;
    const Tensor hidden = batch_hidden(context, model.transformer(), b);
    for (int64_t row = 0; row < b.rows; ++row) {
      const LossSums sums = target_sums(model.transformer(), hidden, b, row);
      scores.push_back({-sums.nll, sums.count, sums.correct == sums.count});
    }
  }
  return scores;
}

}  // namespace plumb
