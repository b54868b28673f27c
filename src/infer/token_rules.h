// What a text's next token may be: the rules of logits.h that options and the model's files ask for, in the
// order of transformers' generate().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/penalties.h"
#include "model/generation_defaults.h"
#include "plumb/generator.h"
#include "plumb/tokenizer.h"

namespace plumb {

// Options and defaults have to outlive it. Threads: const.
class TokenRules {
 public:
  struct Place {
    std::span<const int32_t> history;  // prompt and new tokens
    size_t prompt = 0;                 // tokens of the prompt
    int64_t most = 0;                  // new tokens that may come
    std::span<const int32_t> source;   // what the encoder read, or nothing
    int64_t written() const { return static_cast<int64_t>(history.size() - prompt); }
  };

  TokenRules(const GenerateOptions& options, const GenerationDefaults& defaults, const Tokenizer& tokenizer);
  TokenRules(const TokenRules&) = delete;  // its parts refer to each other

  bool is_end(int64_t id) const;
  int64_t ends() const { return static_cast<int64_t>(defaults_.eos_ids.size()); }

  // On logits or log-probabilities (V). A token that is ruled out gets -inf, a forced one 0.
  void apply(std::span<float> row, const Place& place) const;
  // Temperature and cut-offs, for sampling. `uniform` of [0, 1) is drawn for this token.
  void cut(std::span<float> row, double uniform) const;

 private:
  const GenerateOptions& options_;
  const GenerationDefaults& defaults_;
  std::vector<std::vector<int64_t>> bad_words_;
  std::vector<std::pair<int64_t, double>> bias_;
  std::vector<bool> breakers_;  // by id
  CopyPenalty copies_;
};

// "ID=X" in its parts. Throws Error(usage).
std::pair<int64_t, double> parse_bias(const std::string& text);

}  // namespace plumb
