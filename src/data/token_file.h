// A text as token ids in one mapped file: first all training ids, then all held-out ids. docs/formats has the
// layout.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/file.h"

namespace plumb {

// First bytes of the file, little-endian; ids follow at kTokenFileHeader: train_count, then valid_count of
// them.
struct TokenFileHeader {
  char magic[8] = {'P', 'L', 'U', 'M', 'B', 'T', 'O', 'K'};
  uint32_t version = 1;
  uint32_t id_bytes = 2;  // 2 where the vocabulary fits, else 4
  uint32_t vocab_size = 0;
  int32_t end_token = 0;  // closes every document
  uint64_t train_count = 0, valid_count = 0;
  uint64_t documents = 0, files = 0, source_bytes = 0;
  uint64_t status_hash = 0, content_hash = 0, tokenizer_hash = 0;  // what it was made from
  double held_out = 0;                                             // share asked for
  uint64_t block_bytes = 0;  // text is dealt out in blocks of about this size
};
inline constexpr uint64_t kTokenFileHeader = 4096;

class TokenFile {
 public:
  explicit TokenFile(const std::string& path);  // Error(file) where it is malformed or cut
  const TokenFileHeader& header() const { return header_; }
  const std::string& path() const { return file_.path(); }
  // Copies ids [first, first + count) of a part to `out`.
  void read_train(uint64_t first, uint64_t count, int32_t* out) const;
  void read_valid(uint64_t first, uint64_t count, int32_t* out) const;

 private:
  void read(uint64_t first, uint64_t count, int32_t* out) const;
  MappedFile file_;
  TokenFileHeader header_;
};

}  // namespace plumb
