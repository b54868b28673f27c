#include "base/utf8.h"

#include <cstdint>
#include <cstring>

namespace plumb {
namespace {

// What the bytes at the front of a text are: a whole character, the start of one, or neither. `length` is the
// number of bytes in the character or in the maximal part that could have become one (at least 1).
enum class Front { whole, unfinished, faulty };
struct Character {
  Front front;
  size_t length;
};

Character classify(const unsigned char* p, size_t available) {
  const unsigned char lead = p[0];
  if (lead < 0x80) return {Front::whole, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Front::faulty, 1};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned char low = 0x80,
                high = 0xBF;  // of the second byte: no overlong forms, surrogates, or planes above 16
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (size_t i = 1; i < length; ++i) {
    if (i == available) return {Front::unfinished, i};
    if (p[i] < low || p[i] > high) return {Front::faulty, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Front::whole, length};
}

Character classify(std::string_view text, size_t position) {
  return classify(reinterpret_cast<const unsigned char*>(text.data()) + position, text.size() - position);
}

}  // namespace

size_t utf8_fault(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    uint64_t word;
    while (i + 8 <= text.size() &&
           (std::memcpy(&word, text.data() + i, 8), (word & 0x8080808080808080ull) == 0))
      i += 8;
    if (i == text.size()) break;
    const Character character = classify(text, i);
    if (character.front != Front::whole) return i;
    i += character.length;
  }
  return kUtf8Valid;
}

void append_utf8(std::string& text, char32_t c) {
  const auto byte = [](char32_t value) { return static_cast<char>(value); };
  if (c < 0x80) {
    text += byte(c);
  } else if (c < 0x800) {
    const char bytes[] = {byte(0xC0 | c >> 6), byte(0x80 | (c & 0x3F))};
    text.append(bytes, 2);
  } else if (c < 0x10000) {
    const char bytes[] = {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))};
    text.append(bytes, 3);
  } else {
    const char bytes[] = {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 0x3F)), byte(0x80 | (c >> 6 & 0x3F)),
                          byte(0x80 | (c & 0x3F))};
    text.append(bytes, 4);
  }
}

size_t utf8_unfinished(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const unsigned char byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const Character character = classify(text, text.size() - back);
    return character.front == Front::unfinished && character.length == back ? back : 0;
  }
  return 0;
}

bool is_white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

std::string utf8_repaired(std::string_view bytes) {
  size_t i = utf8_fault(bytes);
  if (i == kUtf8Valid) return std::string(bytes);
  std::string text(bytes.substr(0, i));
  while (i < bytes.size()) {
    const Character character = classify(bytes, i);
    if (character.front == Front::whole) {
      text.append(bytes.substr(i, character.length));
    } else {
      text.append("\xEF\xBF\xBD");
    }
    i += character.length;
  }
  return text;
}

std::string Utf8Stream::add(std::string_view bytes) {
  held_.append(bytes);
  const size_t back = utf8_unfinished(held_);
  std::string text = utf8_repaired(std::string_view(held_).substr(0, held_.size() - back));
  held_.erase(0, held_.size() - back);
  return text;
}

std::string Utf8Stream::finish() {
  std::string text = utf8_repaired(held_);
  held_.clear();
  return text;
}

}  // namespace plumb
