// UTF-8 text files, alone or in folders, found, checked and read in pieces.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace plumb {

struct TextFile {
  std::string path;
  uint64_t size = 0;
  bool named = false;  // by the user; otherwise found in a folder
};

struct TextFiles {
  std::vector<TextFile> files;
  uint64_t bytes = 0;
  std::map<std::string, std::vector<std::string>> skipped;  // reason to paths
};

// Files named by the user are taken as they are; folders are searched. A file that is seen twice (links)
// counts once. Error where a name does not exist, a named file is empty, or nothing is left. Content is not
// looked at.
TextFiles list_text_files(const std::vector<std::string>& names);

// Reads all content: a named file that holds NUL bytes or is not UTF-8 is Error(input) with the byte offset,
// one from a folder is skipped; nothing left is Error(input). Returns a hash of the content that stays.
uint64_t check_text_files(TextFiles& files);

// "skipped 97 of 148 files: 49 with NUL bytes (art.dat ...), 48 the same as another (art.u8 ...)" or "".
std::string skip_notice(const TextFiles& files);

// A file in pieces of about `piece` bytes. A piece ends before a blank that follows a non-blank, wherever it
// has one: no pre-token of the usual patterns crosses there, so that tokenizing the pieces gives the ids of
// the whole. Never inside a character.
class TextReader {
 public:
  TextReader(const std::string& path, size_t piece);
  ~TextReader();
  TextReader(const TextReader&) = delete;
  TextReader& operator=(const TextReader&) = delete;
  // False at the end. Error(input) with the byte offset at a NUL byte or where it is not UTF-8.
  bool next(std::string& piece);

 private:
  void fill();

  std::string path_, rest_;  // what was read
  size_t piece_, used_ = 0;  // of rest_, bytes given out
  uint64_t offset_ = 0;      // of what was not given out yet, in the file
  int descriptor_ = -1;
  bool ended_ = false;
};

}  // namespace plumb
