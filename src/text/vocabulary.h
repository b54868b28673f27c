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
  void reserve(size_t count);

  int32_t find(std::string_view token) const;  // -1 if there is none
  const std::string& token(int32_t id) const;  // "" for an id without a token
  bool has(int32_t id) const { return !token(id).empty(); }
  size_t size() const { return tokens_.size(); }  // highest id + 1
  size_t count() const { return count_; }         // of different tokens

 private:
  struct Place {
    int32_t id = -1;    // -1 where it is free
    uint32_t hash = 0;  // its upper half; the lower one says where a search begins
  };
  size_t slot(std::string_view token, uint64_t hash) const;
  void resize(size_t places);

  std::vector<std::string> tokens_;
  std::vector<Place> table_;  // open addressing, a power of two
  size_t count_ = 0;
};

}  // namespace plumb
