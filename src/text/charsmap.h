// SentencePiece's compiled normalization rules: a trie of what is replaced (Darts' double array) and, one
// after the other and each with a NUL behind it, what takes its place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

class Charsmap {
 public:
  // Error(file), beginning with `name`, for anything but a whole table.
  Charsmap(std::string_view blob, const std::string& name);

  // The longest rule that the text begins with: its length, 0 if there is none, and what takes its place.
  size_t find(std::string_view text, std::string_view& replacement) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;
};

// Standard base64 with its padding. Error(file), beginning with `name`, for anything else.
std::string encode_base64(std::string_view bytes);
std::string decode_base64(std::string_view text, const std::string& name);

}  // namespace plumb
