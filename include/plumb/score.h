// How likely a decoder finds texts: a text's perplexity, and the probabilities of given ways to go on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/model.h"
#include "plumb/tokenizer.h"

namespace plumb {

struct ScoreOptions {
  int64_t length = 0;  // tokens of a window; 0: the model's longest, at most 1024
  int64_t stride = 0;  // tokens from one window to the next; 0: half the length
  int64_t batch = 8;   // windows side by side
};

// Of natural logarithms, over the tokens that count: all but the first.
struct TextScore {
  double nll = 0;  // the sum of -log p
  int64_t tokens = 0;
  int64_t length = 0, stride = 0;  // as used

  double loss() const;        // nll by token
  double perplexity() const;  // exp(loss)
};

// Windows of `length` tokens begin every `stride`, and each token counts in the first window that holds it:
// all but those of the first window have at least length - stride tokens before them. Where that is 0, a
// window's first token has none and does not count. Throws Error(unsupported) for a model that is no decoder
// with a language-model head, Error(input) for a text of less than two tokens, Error(usage) for options out
// of range. Threads: safe. So is score_choices().
TextScore score_text(const Model& model, const Tokenizer& tokenizer, std::string_view text,
                     const ScoreOptions& options = {});

struct ChoiceScore {
  double log_probability = 0;  // of the choice behind the prompt: a natural logarithm, summed over its tokens
  int64_t tokens = 0;
  bool greedy = false;  // each of its tokens is the likeliest one there
};

// Prompt and choice are tokenized as one text; the choice's tokens are those behind what it shares with the
// prompt's own. An empty prompt is the token that texts begin with. Throws Error(input) also where a choice
// adds no token or the whole is longer than the model's longest.
std::vector<ChoiceScore> score_choices(const Model& model, const Tokenizer& tokenizer,
                                       std::string_view prompt, const std::vector<std::string>& choices,
                                       const ScoreOptions& options = {});

}  // namespace plumb
