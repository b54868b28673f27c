#include "text/byte_level.h"

#include <array>

#include "base/utf8.h"

namespace plumb {
namespace {

// Printable Latin-1 characters stand for themselves; the other bytes, in order, for the characters from
// U+0100 on.
bool stands_for_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Spelling {
  std::array<char32_t, 256> character;
  std::array<int, 0x144> byte;  // -1 where a character stands for none

  Spelling() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (unsigned b = 0; b < 256; ++b) {
      character[b] = stands_for_itself(b) ? static_cast<char32_t>(b) : next++;
      byte[character[b]] = static_cast<int>(b);
    }
  }
};

const Spelling& spelling() {
  static const Spelling table;
  return table;
}

}  // namespace

char32_t byte_to_character(unsigned char byte) {
  return spelling().character[byte];
}

std::optional<unsigned char> character_to_byte(char32_t character) {
  if (character >= spelling().byte.size() || spelling().byte[character] < 0) return std::nullopt;
  return static_cast<unsigned char>(spelling().byte[character]);
}

std::string spell_bytes(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_utf8(text, byte_to_character(static_cast<unsigned char>(byte)));
  return text;
}

std::optional<std::string> unspell_bytes(std::string_view text) {
  std::string bytes;
  for (size_t position = 0; position < text.size();) {
    const auto byte = character_to_byte(next_code_point(text, position));
    if (!byte) return std::nullopt;
    bytes += static_cast<char>(*byte);
  }
  return bytes;
}

// GPT-2's pattern. Its \s is the property White_Space, spelled out because PCRE2's \s has U+180E as well.
const Regex& gpt2_pattern() {
  static const Regex pattern(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\t-\r\x{85}\p{Z}\p{L}\p{N}]+)"
                             R"(|[\t-\r\x{85}\p{Z}]+(?![^\t-\r\x{85}\p{Z}])|[\t-\r\x{85}\p{Z}]+)");
  return pattern;
}

}  // namespace plumb
