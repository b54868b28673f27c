// What a Tokenizer holds. Built once, then only read.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "plumb/tokenizer.h"
#include "text/bpe.h"
#include "text/byte_level.h"

namespace plumb {

inline constexpr size_t kTokenRoles = 5;
inline constexpr std::array<const char*, kTokenRoles> kRoleNames = {"bos", "eos", "pad", "unk", "mask"};

struct AddedToken {
  int32_t id;
  std::string content;  // matched as written, before any splitting
  bool special;         // only where the caller asks for it; left out of decoded text
};

struct Tokenizer::Impl {
  std::vector<std::string> tokens;               // id to spelling; "" where an id has no token
  std::unordered_map<std::string, int32_t> ids;  // and back
  std::vector<AddedToken> added;                 // by id
  std::array<std::optional<int32_t>, kTokenRoles> roles;
  ByteLevel pre_tokenizer;
  Bpe model;

  // Made by finish() from what is above.
  std::vector<std::string> bytes;        // id to the bytes that decoding gives
  std::vector<bool> special;             // by id
  std::array<bool, 256> starts_added{};  // whether an added token begins with the byte
  std::vector<size_t> longest_first;     // indexes of `added`
  bool has_plain_added = false;          // one that is matched in any text
  uint64_t fingerprint = 0;

  void add_token(int32_t id, std::string spelling);
  void add_special(int32_t id, const std::string& content);
  void finish();
  std::string_view bytes_of(int32_t id, bool keep_special) const;
  void encode_plain(std::string_view text, size_t offset, std::vector<int32_t>& ids) const;
};

}  // namespace plumb
