// UTF-8: checking, code points, and a decoder that holds back an unfinished character.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plumb {

inline constexpr size_t kUtf8Valid = static_cast<size_t>(-1);

// Offset of the first byte that does not belong to a well-formed character (Unicode 15, table 3-7: no
// surrogates, no overlong forms, nothing above U+10FFFF), or kUtf8Valid. A cut character at the end counts as
// a fault.
size_t utf8_fault(std::string_view text);

// The code point at `position` of valid text; moves position behind it.
inline char32_t next_code_point(std::string_view text, size_t& position) {
  const auto byte = [&](size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[position + i]));
  };
  const char32_t lead = byte(0);
  char32_t result;
  if (lead < 0x80) {
    result = lead;
    position += 1;
  } else if (lead < 0xE0) {
    result = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
    position += 2;
  } else if (lead < 0xF0) {
    result = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    position += 3;
  } else {
    result = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    position += 4;
  }
  return result;
}

void append_utf8(std::string& text, char32_t code_point);

// Number of bytes at the end of `text` that begin a well-formed character but do not finish it (0 to 3).
size_t utf8_unfinished(std::string_view text);

// The Unicode property White_Space.
bool is_white_space(char32_t code_point);

// Bytes to valid UTF-8: each maximal ill-formed part becomes U+FFFD (Unicode 15, section 3.9).
std::string utf8_repaired(std::string_view bytes);

// The same for bytes that come in pieces: what add() returns ends with a whole character; the concatenation
// of all that is returned, finish() included, is utf8_repaired() of all that was added.
class Utf8Stream {
 public:
  std::string add(std::string_view bytes);
  std::string finish();  // what is still held back, repaired; then empty again

 private:
  std::string held_;
};

}  // namespace plumb
