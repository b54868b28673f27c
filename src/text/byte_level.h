// Byte-level pre-tokens (Radford et al. 2019, "Language models are unsupervised multitask learners",
// section 2.2): text is cut by a fixed pattern, and each of the 256 bytes is spelled by one printable
// character in vocabulary files.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "text/regex.h"

namespace plumb {

char32_t byte_to_character(unsigned char byte);
std::optional<unsigned char> character_to_byte(char32_t character);

std::string spell_bytes(std::string_view bytes);  // " the" -> "Ġthe"
// The bytes that a spelling stands for; nothing if it has a character that stands for no byte.
std::optional<std::string> unspell_bytes(std::string_view spelling);

struct ByteLevel {
  bool add_prefix_space = false;  // a text that does not begin with a space gets one
  bool use_regex = true;          // GPT-2's pattern; otherwise the text is one pre-token

  // Calls `take` for each pre-token of a valid UTF-8 text, in order; together they are the text (and the
  // added space).
  template <typename Take>
  void split(std::string_view text, Take&& take) const;
};

const Regex& gpt2_pattern();

template <typename Take>
void ByteLevel::split(std::string_view text, Take&& take) const {
  std::string prefixed;
  if (add_prefix_space && !text.starts_with(' ')) {
    prefixed.append(" ").append(text);
    text = prefixed;
  }
  if (!use_regex) {
    if (!text.empty()) take(text);
    return;
  }
  Regex::Matches matches(gpt2_pattern(), text);
  size_t begin = 0, end = 0, done = 0;
  while (matches.next(begin, end)) {
    if (begin > done) take(text.substr(done, begin - done));
    take(text.substr(begin, end - begin));
    done = end;
  }
  if (done < text.size()) take(text.substr(done));
}

}  // namespace plumb
