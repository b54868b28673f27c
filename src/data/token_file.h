// A text as token ids in one mapped file: first all training ids, then all held-out ids.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"
#include "plumb/dataset.h"

namespace plumb {

// The first bytes of the file, little-endian. At kTokenFileHeader begin train_count, then valid_count ids of
// id_bytes each; nothing follows.
struct TokenFileHeader {
  char magic[8] = {'P', 'L', 'U', 'M', 'B', 'T', 'O', 'K'};
  uint32_t version = 1;
  uint32_t id_bytes = 2;  // 2 where the vocabulary fits, else 4
  uint32_t vocab_size = 0;
  int32_t end_token = 0;  // closes every document
  uint64_t train_count = 0, valid_count = 0;
  uint64_t train_bytes = 0, valid_bytes = 0;  // of text
  uint64_t documents = 0, files = 0;
  uint64_t status_hash = 0, content_hash = 0, tokenizer_hash = 0;  // what it was made from
  double held_out = 0;                                             // share asked for
  uint64_t block_bytes = 0;  // text is dealt out to the two parts in blocks of about this size
};
inline constexpr uint64_t kTokenFileHeader = 4096;

class TokenFile {
 public:
  explicit TokenFile(const std::string& path);  // Error(file) where it is malformed or cut
  const TokenFileHeader& header() const { return header_; }
  const std::string& path() const { return file_.path(); }
  uint64_t count(Split part) const;  // 0 for test
  // Copies ids [first, first + count) of a part. Error(file) at an id outside the vocabulary.
  void read(Split part, uint64_t first, uint64_t count, int32_t* out) const;

 private:
  MappedFile file_;
  TokenFileHeader header_;
};

}  // namespace plumb
