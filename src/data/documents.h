// Short documents from JSON lines, packed into rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plumb/dataset.h"

namespace plumb {

class Documents {
 public:
  // Lines {"text": TEXT} or {"prompt": TEXT, "completion": TEXT}; which are held out is drawn by the seed.
  // Throws Error(file, input) that names the line.
  Documents(const std::string& path, const Tokenizer& tokenizer, const TextOptions& options);

  // Rows of documents that follow each other in an order of the seed, as many as fit, from anywhere in the
  // training part: from where is a function of (step, row).
  struct Rows {
    int64_t step = 0;
    int64_t first_row = 0;  // of the step
    int64_t rows = 0, length = 0;
    int32_t pad_id = 0;
  };
  Batch batch(const Rows& what) const;

  // Every document of a part once, in order: row first_row and those after it.
  int64_t row_count(Split part, int64_t length) const;
  Batch ordered(Split part, const Rows& what) const;

  int64_t count() const { return static_cast<int64_t>(documents_.size()); }
  int64_t token_count(Split part) const;
  int64_t byte_count(Split part) const;

 private:
  // The document's ids are inputs but for the last, and targets from `first` (at least 1) on.
  struct Document {
    std::vector<int32_t> ids;
    int64_t first = 1;
    int64_t bytes = 0;  // of text that is targets
    int64_t line = 0;
  };
  struct Part {
    size_t begin = 0, end = 0;
  };
  Document read(const std::string& line, int64_t number, const Tokenizer& tokenizer) const;
  Part part(Split split) const;
  size_t fill(Batch& batch, int64_t row, size_t next, size_t end) const;
  void check_length(int64_t length) const;

  std::string path_;
  uint64_t seed_ = 0;
  std::vector<Document> documents_;  // held-out ones first
  size_t held_out_ = 0, longest_ = 0;
};

}  // namespace plumb
