// The text of tokens as they are chosen, cut before the first stop string.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/tokenizer.h"

namespace plumb {

// Finds the first of some strings in a text that comes in pieces. What may turn out to be the beginning of
// one is held back.
class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stop) : stop_(std::move(stop)) {}

  std::string add(std::string_view piece);   // what is certain now
  std::string finish();                      // what was held back
  bool stopped() const { return stopped_; }  // a stop string was found: nothing comes any more

 private:
  std::vector<std::string> stop_;
  std::string held_;
  bool stopped_ = false;
};

class TextStream {
 public:
  using OnText = std::function<void(std::string_view piece)>;

  // `on_text` may be empty.
  TextStream(const Tokenizer& tokenizer, std::vector<std::string> stop, OnText on_text)
      : decoder_(tokenizer.stream_decoder()), filter_(std::move(stop)), on_text_(std::move(on_text)) {}

  void add(int32_t id) { show(filter_.add(decoder_.add(id))); }
  void finish();  // no more tokens
  bool stopped() const { return filter_.stopped(); }
  const std::string& text() const { return text_; }  // all that was shown

 private:
  void show(const std::string& piece);

  StreamDecoder decoder_;
  StopFilter filter_;
  OnText on_text_;
  std::string text_;
};

}  // namespace plumb
