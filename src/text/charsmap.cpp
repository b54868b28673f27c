#include "text/charsmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/utf8.h"
#include "plumb/error.h"

namespace plumb {
namespace {

// A unit of the double array. A leaf's value stands in a unit of its own, behind the one that says it has
// one.
bool has_leaf(uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
uint32_t label(uint32_t unit) {
  return unit & (1u << 31 | 0xFF);
}
uint32_t step(uint32_t unit) {
  return unit >> 10 << ((unit & 1u << 9) >> 6);
}

// Inside a character.
bool continues(char byte) {
  return (byte & 0xC0) == 0x80;
}

}  // namespace

Charsmap::Charsmap(std::string_view blob, const std::string& name) {
  uint32_t bytes = 0;
  if (blob.size() >= 4) std::memcpy(&bytes, blob.data(), 4);
  if (bytes == 0 || bytes % 4 != 0 || bytes > blob.size() - 4) {
    throw Error(ErrorKind::file, fmt::format("{}: a table of rules of {} bytes says that its trie takes {}",
                                             name, blob.size(), bytes));
  }
  units_.resize(bytes / 4);
  std::memcpy(units_.data(), blob.data() + 4, bytes);
  replacements_ = blob.substr(4 + bytes);
  if (const size_t fault = utf8_fault(replacements_); fault != kUtf8Valid)
    throw Error(ErrorKind::file, fmt::format("{}: the replacements are not UTF-8 at byte {}", name, fault));
}

size_t Charsmap::find(std::string_view text, std::string_view& replacement) const {
  size_t longest = 0;
  uint32_t place = step(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0) break;
    place ^= byte;
    if (place >= units_.size() || label(units_[place]) != byte) break;
    const uint32_t unit = units_[place];
    place ^= step(unit);
    if (!has_leaf(unit) || place >= units_.size()) continue;
    const uint32_t begin = units_[place] & 0x7FFFFFFF;
    const bool whole = i + 1 == text.size() || !continues(text[i + 1]);
    if (!whole || begin >= replacements_.size() || continues(replacements_[begin])) continue;
    longest = i + 1;
    replacement = std::string_view(replacements_).substr(begin);
    replacement = replacement.substr(0, replacement.find('\0'));
  }
  return longest;
}

std::string encode_base64(std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t held = 0;
    for (size_t j = 0; j < 3; ++j)
      held = held << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j) text += j <= count ? kDigits[held >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

std::string decode_base64(std::string_view text, const std::string& name) {
  const auto digit = [](char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  const size_t digits = text.find('=') == std::string_view::npos ? text.size() : text.find('=');
  if (text.size() % 4 != 0 || text.size() - digits > 2)
    throw Error(ErrorKind::file, fmt::format("{}: {} characters are no base64", name, text.size()));
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t held = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const int value = i < digits ? digit(text[i]) : text[i] == '=' ? 0 : -1;
    if (value < 0)
      throw Error(ErrorKind::file, fmt::format("{}: character {} is no digit of base64", name, i));
    held = held << 6 | static_cast<uint32_t>(value);
    if (i % 4 != 3) continue;
    for (const int shift : {16, 8, 0}) bytes += static_cast<char>(held >> shift);
    held = 0;
  }
  bytes.resize(bytes.size() - (text.size() - digits));
  return bytes;
}

}  // namespace plumb
