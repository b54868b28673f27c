// The models of tokenizer.json: from a piece of text to tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_at.h"
#include "text/vocabulary.h"
#include "text/word_memory.h"

namespace plumb {

struct ModelToken {
  int32_t id;
  uint32_t begin, end;  // bytes of the piece
  bool as_text;         // shown as the text it stands for, not as the vocabulary spells it
};

class TokenModel {
 public:
  explicit TokenModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~TokenModel() = default;
  TokenModel(const TokenModel&) = delete;
  TokenModel& operator=(const TokenModel&) = delete;

  // Appends what a piece (valid UTF-8, not empty) becomes. Error(input) where the model refuses it.
  virtual void encode(std::string_view piece, std::vector<ModelToken>& out) const = 0;
  void encode_ids(std::string_view piece, std::vector<int32_t>& out) const;

  virtual std::string kind() const = 0;      // as messages name it
  virtual std::string options() const = 0;   // a JSON object: all but vocabulary and merges
  virtual std::string contents() const = 0;  // "\"vocab\": ...", and merges
  virtual uint64_t fingerprint() const = 0;  // of what is not in the vocabulary and the options

  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  virtual void find_ids(std::string_view piece, std::vector<int32_t>& out) const;
  virtual bool forgets() const { return false; }  // a piece may become something else the next time

  // For models that join neighbours and read a whole text as one piece: what stands from one blank's mark to
  // the next becomes the same for itself, if no token has the mark behind another character. encode_ids()
  // then reads such parts, of which most came before.
  void cut_at_marks();

 private:
  void part_ids(std::string_view part, std::vector<int32_t>& out) const;
  bool cuts_at_marks_ = false;
  const uint32_t owner_ = new_word_owner();
  Vocabulary vocabulary_;
};

// "{\"token\": id, ...}" in the order of ids, indented for tokenizer.json.
std::string vocabulary_json(const Vocabulary& vocabulary);

// json.vocab, an object of ids. Error(file) names the entry: empty, given an id that is no whole number, far
// beyond the others, or another's.
Vocabulary read_vocabulary(const JsonAt& json);

// spells_bytes: the pre-tokenizer ends by spelling bytes as characters (text/byte_level.h). A model that can
// read the bytes themselves says so by byte_level(), and is then given them.
struct ReadModel {
  std::unique_ptr<TokenModel> model;
  bool reads_bytes = false;
};
ReadModel read_model(const JsonAt& json, bool spells_bytes);

std::unique_ptr<TokenModel> read_unigram(const JsonAt& json);
struct WordPieceOptions {
  std::string unknown = "[UNK]", prefix = "##";
  size_t most_characters = 100;  // of a word that is cut; a longer one is unknown
};
std::unique_ptr<TokenModel> make_wordpiece(Vocabulary vocabulary, const WordPieceOptions& options);
std::unique_ptr<TokenModel> read_wordpiece(const JsonAt& json);
std::unique_ptr<TokenModel> read_wordlevel(const JsonAt& json);

}  // namespace plumb
