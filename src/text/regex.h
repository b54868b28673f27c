// Regular expressions over UTF-8 (PCRE2 with its JIT), for pre-tokenizer patterns.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace plumb {

class Regex {
 public:
  // Error(unsupported) with the pattern and the place where it cannot be followed.
  explicit Regex(const std::string& pattern) : Regex(pattern, pattern) {}
  // Of a pattern in the syntax of tokenizer files.
  static Regex ruby(const std::string& pattern);

  // Goes through the matches in a valid UTF-8 text, left to right, without overlap. The text and the pattern
  // must outlive it. One thread each; the pattern may be shared.
  class Matches {
   public:
    Matches(const Regex& regex, std::string_view text);
    ~Matches();
    Matches(const Matches&) = delete;
    Matches& operator=(const Matches&) = delete;
    // The next match [begin, end). An empty one does not stand where the one before ended. Error(input) when
    // a match takes more steps than any sane one.
    bool next(size_t& begin, size_t& end);

   private:
    const Regex& regex_;
    std::string_view text_;
    size_t position_ = 0, last_ = static_cast<size_t>(-1);
    void* scratch_;
  };

 private:
  Regex(const std::string& pattern, const std::string& shown);

  std::string pattern_;  // as messages show it
  std::shared_ptr<void> code_, context_;
};

}  // namespace plumb
