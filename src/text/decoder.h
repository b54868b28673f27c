// The decoders of tokenizer.json: from tokens back to text. Each is a stage that takes tokens one by one and
// gives them on as soon as it is certain of them, so that a stream and a whole text are decoded alike.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_at.h"

namespace plumb {

// Takes a token, or what continues the one before (starts == false).
using TakeToken = std::function<void(std::string_view token, bool starts)>;

class DecodeStage {
 public:
  virtual ~DecodeStage() = default;
  virtual void add(std::string_view token, bool starts, const TakeToken& next) = 0;
  virtual void finish(const TakeToken& next) { (void)next; }
};

struct Decoder {
  // In order. joined: the stage before gives out one token in parts.
  std::vector<std::function<std::unique_ptr<DecodeStage>(bool joined)>> stages;
  std::vector<bool> joins;       // whether a stage gives out one token in parts
  bool only_byte_level = false;  // it is that and nothing else
};

Decoder no_decoder();  // a blank between all tokens
Decoder read_decoder(const JsonAt& json);

// Decodes one sequence of tokens.
class DecodeChain {
 public:
  explicit DecodeChain(const Decoder& decoder);
  std::string add(std::string_view token);  // what is certain now
  std::string finish();

 private:
  void pass(size_t stage, std::string_view token, bool starts);

  std::vector<std::unique_ptr<DecodeStage>> stages_;
  std::vector<TakeToken> next_;  // of each stage
  std::string out_;
};

}  // namespace plumb
