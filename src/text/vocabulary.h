// The tokens of a model: id to spelling and back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plumb {

class Vocabulary {
 public:
  // Of tokens that are spelled alike the last to be added is found.
  void add(int32_t id, std::string token);

  int32_t find(std::string_view token) const;  // -1 if there is none
  const std::string& token(int32_t id) const;  // "" for an id without a token
  bool has(int32_t id) const { return !token(id).empty(); }
  size_t size() const { return tokens_.size(); }  // highest id + 1
  size_t count() const { return count_; }         // of different tokens

 private:
  size_t slot(std::string_view token) const;
  void grow();

  std::vector<std::string> tokens_;
  std::vector<int32_t> table_;  // ids by hash, open addressing, a power of two; -1 where free
  size_t count_ = 0;
};

}  // namespace plumb
