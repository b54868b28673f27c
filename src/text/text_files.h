// UTF-8 text files, alone or in folders, found, checked and read in pieces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

struct TextFiles {
  std::vector<std::string> paths;
  uint64_t bytes = 0;
  int skipped = 0;  // files inside folders that are no text, or were read already under another name
  std::string skip_examples;  // up to three of them with the reason
  uint64_t status_hash = 0;   // of paths, sizes and times: cheap, changes when a file is touched
};

// Names that are files must be readable, and are taken as they are; folders are searched. Files that are seen
// twice (links) count once. Nothing left: Error(input). Content is not looked at.
TextFiles list_text_files(const std::vector<std::string>& names);

// Looks at all content. A named file that is empty, holds NUL bytes or is not UTF-8 is Error(input) with the
// byte offset; one inside a folder is skipped. Sets content_hash to a hash of all that is left.
TextFiles check_text_files(const std::vector<std::string>& names, uint64_t* content_hash = nullptr);

// "skipped 97 of 148 files: 50 the same as others (art.u8), ..." or "".
std::string skip_notice(const TextFiles& files);

// A file in pieces of about `piece` bytes, each valid UTF-8. A piece ends before a blank that follows a
// non-blank wherever there is one, because no pre-token of the usual patterns crosses there: tokenizing
// pieces gives the ids of the whole.
class TextReader {
 public:
  TextReader(const std::string& path, size_t piece);
  ~TextReader();
  TextReader(const TextReader&) = delete;
  TextReader& operator=(const TextReader&) = delete;
  bool next(std::string& piece);  // false at the end

 private:
  std::string path_, rest_;
  size_t piece_;
  uint64_t offset_ = 0;
  int descriptor_ = -1;
  bool ended_ = false;
};

}  // namespace plumb
