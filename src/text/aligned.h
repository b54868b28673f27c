// A text on its way from what the caller gave to what a model reads, with the place in the caller's text that
// each byte stands for, where places are wanted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plumb/tokenizer.h"

namespace plumb {

struct Aligned {
  std::string text;              // UTF-8
  bool tracked = false;          // whether there are places
  std::vector<TextSpan> places;  // of each byte: the bytes of the caller's text, a whole character at least
  uint32_t origin = 0;           // where this part of the caller's text begins

  TextSpan place(size_t byte) const {  // {origin, origin} before the first
    return byte < places.size() ? places[byte] : TextSpan{origin, origin};
  }
};

// Steps of a file may each make a text longer. Error(input) where they make it longer than any sane ones do.
void check_growth(size_t before, size_t after);

// Writes the text that takes the place of `from`, character by character. What is written stands for the
// characters of `from` that it is said to replace; what is added, for the character before it.
class Rewrite {
 public:
  explicit Rewrite(const Aligned& from, size_t skipped = 0) : from_(from), at_(skipped) {
    text_.reserve(from.text.size() + 16);
    if (from.tracked) places_.reserve(from.text.size() + 16);
  }
  // change 0: in place of the next character; -n: of the next and n more; > 0: added.
  void put(char32_t c, int change);
  void put(std::string_view utf8, TextSpan place);  // added, standing for `place`
  void drop(size_t end) { at_ = end; }              // all up to byte `end` has nothing in its place
  void keep(size_t end);                            // all up to byte `end` as it is
  size_t position() const { return at_; }
  size_t written() const { return text_.size(); }
  void finish(Aligned& to);  // may be `from`

 private:
  void pass();

  const Aligned& from_;
  size_t at_;  // in from_.text: what is not replaced yet
  std::string text_;
  std::vector<TextSpan> places_;
};

}  // namespace plumb
