// What a Tokenizer holds. Built once, then only read.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "plumb/tokenizer.h"
#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/encoding.h"
#include "text/model.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"

namespace plumb {

inline constexpr size_t kTokenRoles = 5;
inline constexpr std::array<const char*, kTokenRoles> kRoleNames = {"bos", "eos", "pad", "unk", "mask"};

// The parts of tokenizer.json around the model, in the order in which they are written.
inline constexpr std::array<const char*, 6> kPartNames = {"truncation",    "padding",        "normalizer",
                                                          "pre_tokenizer", "post_processor", "decoder"};

struct Tokenizer::Impl {
  std::map<std::string, std::string> parts;  // those that are there, as JSON
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;
  Normalizer normalizer;       // may be empty
  PreTokenizer pre_tokenizer;  // may be empty
  std::unique_ptr<TokenModel> model;
  bool reads_bytes = false;      // the model takes bytes where the pre-tokenizer would spell them
  PostProcessor post_processor;  // may be empty
  Decoder decoder;
  AddedTokens added;
  std::array<std::optional<int32_t>, kTokenRoles> roles;

  // Made by finish() from what is above.
  std::unordered_map<int32_t, size_t> added_by_id;  // to its place in added.list()
  size_t size = 0;                                  // highest id + 1
  std::vector<std::string> bytes;  // what an id decodes to, where each token decodes for itself
  uint64_t fingerprint = 0;

  // Part `name` from its JSON: fills `parts` and what is made of it. To be called in any order, the model
  // last.
  void set_part(const std::string& name, const JsonAt& json);
  void finish();

  const std::string& token(int32_t id) const;  // "" where an id has none
  std::optional<int32_t> id(std::string_view token) const;
  bool is_special(int32_t id) const;
  void check_id(int32_t id) const;

  // The text in pieces, as the model is to be given them. tracked: with their places in the text.
  Pieces cut(std::string_view text, bool parse_special, bool tracked) const;
  void piece_ids(const Pieces& pieces, std::vector<int32_t>& ids) const;
  void piece_tokens(const Pieces& pieces, std::string_view text, Wanted wanted, Encoding& result) const;
  void encode_ids(std::string_view text, bool parse_special, std::vector<int32_t>& ids) const;
  Encoding encode_text(std::string_view text, int sequence, const EncodeOptions& options,
                       Wanted wanted) const;
  Encoding encode_input(const TextInput& input, const EncodeOptions& options, Wanted wanted) const;
};

}  // namespace plumb
