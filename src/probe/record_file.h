// A file of records by step, one JSON object a line, to which a run appends and that a resumed run continues.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace plumb {

class RecordFile {
 public:
  explicit RecordFile(std::string path) : path_(std::move(path)) {}

  // Appends one line and hands it to the system. Before the first, lines of `step` or later are dropped from
  // what the file held, and so is what is no record: a line that a crash cut off. Throws Error(file).
  void append(int64_t step, const std::string& line);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  void open(int64_t step);
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace plumb
